// Host helpers for the tiling of library functions.
#ifndef KOPE_FOREIGN_TILING_API_H
#define KOPE_FOREIGN_TILING_API_H

#include "kope_foreign/gert.h"

#endif
