// Every primitive that needs assembly, each with its host body beside it.
#pragma once

#include "kernels/ptx/async.h"
#include "kernels/ptx/cache.h"
#include "kernels/ptx/math.h"
#include "kernels/ptx/matrix.h"
