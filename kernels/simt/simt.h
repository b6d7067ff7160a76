// All that a kernel needs to be one source for nvcc and for a C++ compiler. README.md beside it says how to
// use it.
#pragma once

#include <cmath>

#include "kernels/simt/launch.h"
#include "kernels/simt/memory.h"
#include "kernels/simt/warp.h"
