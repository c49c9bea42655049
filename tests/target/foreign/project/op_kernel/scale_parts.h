#pragma once
#include "kernel_operator.h"
#include "lib/math/kernel_operator_sign_intf.h"
