// What nvcc knows by itself and a C++ compiler does not: the qualifiers of device code.
#pragma once

#ifndef __CUDACC__
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#endif
