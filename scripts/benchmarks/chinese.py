"""Is Chinese text recalled? Share of questions whose lesson comes first, by words, by embedding, and by both.

    scripts/bench chinese

Twenty-four lessons in Chinese are recorded as attempts on one task, and each is asked for in other words. Chinese is
indexed as pairs of characters; the default embedder is a model of English.
"""

from __future__ import annotations

from pathlib import Path

from filled import HERE
from recall import ranked_by

from kope.memory import RecallQuery, Store
from kope.memory.embedding import find_embedder
from kope.model import (
    Attempt,
    Candidate,
    Case,
    CaseInput,
    Outcome,
    OutputDecl,
    Proposal,
    Stage,
    Task,
    TensorSpec,
    Verdict,
)

PAIRS = (
    ("开启双缓冲后，下一块数据的搬入与当前块的计算同时进行", "怎样让搬运和计算重叠起来"),
    ("把切块加长一倍，每次搬运的固定开销被更多元素分摊", "切块太小导致启动开销占比高怎么办"),
    ("统一缓冲区放不下四个张量，缩短切块之后不再溢出", "缓冲区溢出如何解决"),
    ("尾块不足三十二字节，改用带填充的搬运指令才得到正确结果", "最后一块长度没有对齐，结果出错"),
    ("行归约改为一条指令累加全部重复，省去逐次折半", "归约指令太多，想减少次数"),
    ("先求每行的倒数，再逐元素相乘，避免逐元素除法", "除法很慢，能不能换成乘法"),
    ("标量读回之前缺少同步，读到的是旧值", "读出来的标量不对，是不是少了等待"),
    ("半精度直接计算省去类型转换，但误差超出容差", "用半精度算会不会精度不够"),
    ("小张量只用少数几个核，启动代价更低", "数据量很小时该用多少个核"),
    ("按列的权重常驻片上，每个核只搬一次", "权重每次都重复搬运，怎么避免"),
    ("多行合并为一块处理，短行不再浪费搬运次数", "每行很短，效率低"),
    ("乘加合为一条指令，向量流水线更短", "乘法和加法可以合并吗"),
    ("指数计算先减去最大值，避免上溢为无穷", "软最大值出现无穷大"),
    ("均值与平方和一次遍历得到，少读一遍输入", "方差要读两遍数据，能否只读一遍"),
    ("随机访问的收集改为按索引排序后连续搬运", "按下标取数太慢"),
    ("矩阵转置用分块方式，避免逐元素跨行写回", "转置写回时不连续怎么优化"),
    ("编译报错找不到队列类型，因为头文件没有包含", "提示类型未定义，编译不过"),
    ("核函数超时，循环上界用了字节数而不是元素个数", "程序一直不结束"),
    ("写回地址没有按核偏移，各核互相覆盖", "多核结果互相覆盖"),
    ("整型溢出，累加改用更宽的类型", "求和之后数值变成负数"),
    ("比较指令的结果是位掩码，需要用选择指令展开", "比较之后如何按条件取值"),
    ("缓冲区复用让出空间，切块可以再大一倍", "片上空间不够，还想加大切块"),
    ("广播标量用块填充，留在向量单元里不再等待", "每行的标量要扩展到整行"),
    ("输出与输入共用内存时要先备份再覆盖", "原地计算把输入改坏了"),
)
WAYS = {
    "words alone": ("words", "code"),
    "embedding alone": ("meaning",),
    "words and embedding": ("words", "code", "meaning"),
    "recall, everything fused": ("structure", "words", "code", "meaning", "move", "outcome", "value"),
}


def record(store: Store, session_id: str, task: Task, number: int, text: str) -> str:
    """Record an attempt whose reason is the text; returns its experience."""
    source = f"// {number}\n"
    attempt = Attempt(
        f"chinese-{number}",
        session_id,
        number,
        task.name,
        task.digest,
        Candidate.of(source),
        Proposal(source, f"edit-{number}", text),
        Outcome(Stage.PROFILE, Verdict.SCREENED),
        HERE,
        "outside",
    )
    return store.record(attempt).id


def main() -> None:
    """Print the share of lessons found first, and among the first five, by each way."""
    case = Case("c1", (CaseInput(TensorSpec("x", (8,), "float32")),))
    task = Task("算子", "任意算子", ("x",), (OutputDecl("y", "same:x"),), {}, "", "", "numpy", (case,), {}, "digest")
    with Store.open(Path(":memory:"), embedder=find_embedder()) as store:
        store.add_task(task)
        session_id = store.begin_session("chinese", session_id="chinese").id
        wanted = [record(store, session_id, task, number, told) for number, (told, _) in enumerate(PAIRS)]
        for name, ways in WAYS.items():
            found = [ranked_by(store, RecallQuery(text=asked, limit=24), ways) for _, asked in PAIRS]
            first = sum(order[:1] == [right] for order, right in zip(found, wanted, strict=True))
            five = sum(right in order[:5] for order, right in zip(found, wanted, strict=True))
            print(f"{name:<28} first {first} of {len(PAIRS)}, among the first five {five}")


if __name__ == "__main__":
    main()
