"""Any captured reference as a kernel: loop nests over strided views, one phase after the other over device memory.

Slower than the kernels of one fused tile (emit.py), but there is one for every graph. Which of the two a task gets is
decided in kope.derive.first.
"""

from __future__ import annotations
