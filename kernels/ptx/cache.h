// 16-byte accesses to memory. Stores are spelled out: left to itself nvcc makes four of 4 bytes of some of them.
// PTX ISA 8.x, "ld" and "st": .L1::no_allocate (sm_70) does not place the line in L1; .cs marks it
// evict-first. The loads are not .nc, so that a kernel may write in place.
#pragma once

#include <cstdint>

#include "kernels/simt/qualifiers.h"
#include "kernels/simt/site.h"

#ifndef __CUDACC__
#include "kernels/simt/host/hooks.h"
#endif

namespace genesis::ptx {

// A register image of 1 to 16 bytes, which moves in one instruction.
template <int bytes>
struct BitsOf;
template <>
struct BitsOf<1> {
  using type = uint8_t;
};
template <>
struct BitsOf<2> {
  using type = uint16_t;
};
template <>
struct BitsOf<4> {
  using type = uint32_t;
};
#ifdef __CUDACC__
template <>
struct BitsOf<8> {
  using type = uint2;
};
template <>
struct BitsOf<16> {
  using type = uint4;
};
#else
template <>
struct BitsOf<8> {
  using type = uint64_t;
};
template <>
struct BitsOf<16> {
  struct alignas(16) type {
    uint32_t x, y, z, w;
  };
};
#endif
template <int bytes>
using Bits = typename BitsOf<bytes>::type;

// From global memory.
__device__ inline Bits<16> load_once(const void* p, [[maybe_unused]] simt::Site site) {
  Bits<16> r;
#ifdef __CUDACC__
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
               : "l"(__cvta_generic_to_global(p))
               : "memory");
#else
  simt::host::expect(p, simt::host::Where::global, site);
  simt::host::read(&r, p, sizeof(r), simt::host::Kind::load, site);
#endif
  return r;
}

// From global memory, or zeros, without reading there: a predicated instruction where a condition in C++ may
// become a branch.
__device__ inline Bits<16> load_or_zero(const void* p, bool there, [[maybe_unused]] simt::Site site) {
  Bits<16> r = {};
#ifdef __CUDACC__
  asm volatile(
      "{\n"
      ".reg .pred there;\n"
      "setp.ne.u32 there, %5, 0;\n"
      "@there ld.global.v4.u32 {%0, %1, %2, %3}, [%4];\n"
      "}"
      : "+r"(r.x), "+r"(r.y), "+r"(r.z), "+r"(r.w)
      : "l"(__cvta_generic_to_global(p)), "r"(uint32_t(there))
      : "memory");
#else
  if (there) {
    simt::host::expect(p, simt::host::Where::global, site);
    simt::host::read(&r, p, sizeof(r), simt::host::Kind::load, site);
  }
#endif
  return r;
}

// To global memory.
__device__ inline void store(void* p, Bits<16> r, [[maybe_unused]] simt::Site site) {
#ifdef __CUDACC__
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(__cvta_generic_to_global(p)), "r"(r.x), "r"(r.y), "r"(r.z), "r"(r.w)
               : "memory");
#else
  simt::host::expect(p, simt::host::Where::global, site);
  simt::host::write(p, &r, sizeof(r), site);
#endif
}

__device__ inline void store_once(void* p, Bits<16> r, [[maybe_unused]] simt::Site site) {
#ifdef __CUDACC__
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(__cvta_generic_to_global(p)), "r"(r.x), "r"(r.y), "r"(r.z), "r"(r.w)
               : "memory");
#else
  store(p, r, site);
#endif
}

__device__ inline void store_shared(void* p, Bits<16> r, [[maybe_unused]] simt::Site site) {
#ifdef __CUDACC__
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "r"(uint32_t(__cvta_generic_to_shared(p))), "r"(r.x), "r"(r.y), "r"(r.z), "r"(r.w)
               : "memory");
#else
  simt::host::expect(p, simt::host::Where::shared, site);
  simt::host::write(p, &r, sizeof(r), site);
#endif
}

}  // namespace genesis::ptx
