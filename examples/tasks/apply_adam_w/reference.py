"""One AdamW step."""

import numpy as np


def reference(var, m, v, grad, *, lr, beta1, beta2, weight_decay, epsilon, beta1_power, beta2_power):
    m_new = beta1 * m + (1.0 - beta1) * grad
    v_new = beta2 * v + (1.0 - beta2) * grad * grad
    m_hat = m_new / (1.0 - beta1_power)
    v_hat = v_new / (1.0 - beta2_power)
    var_new = var * (1.0 - lr * weight_decay) - lr * m_hat / (np.sqrt(v_hat) + epsilon)
    return var_new, m_new, v_new
