// Single instructions of arithmetic.
// PTX ISA 8.x, "cvt" (bf16x2, sm_80), "ex2", "rsqrt", "rcp".
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/common/bf16.h"
#include "kernels/simt/qualifiers.h"

namespace genesis::ptx {

// Two floats rounded to nearest even: `low` in bits 0..15.
__device__ inline uint32_t pack_bf16(float low, float high) {
#ifdef __CUDACC__
  uint32_t r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
#else
  return uint32_t(bf16(low).bits) | uint32_t(bf16(high).bits) << 16;
#endif
}

__device__ inline float low_bf16(uint32_t pair) { return std::bit_cast<float>(pair << 16); }
__device__ inline float high_bf16(uint32_t pair) { return std::bit_cast<float>(pair & 0xffff0000u); }

// 2^x, relative error under 2^-22; denormal results are zero.
__device__ inline float exp2_approx(float x) {
#ifdef __CUDACC__
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
#else
  const float r = std::exp2(x);
  return std::abs(r) < 0x1p-126f ? 0.f : r;
#endif
}

// Zeros from bit 0 up to the first one, ones up to the first zero; 32 if there is none. nvcc accepts
// std::countr_one in device code and makes nonsense of it.
__device__ inline int trailing_zeros(uint32_t x) {
#ifdef __CUDACC__
  return __clz(int(__brev(x)));
#else
  return std::countr_zero(x);
#endif
}
__device__ inline int trailing_ones(uint32_t x) { return trailing_zeros(~x); }

}  // namespace genesis::ptx
