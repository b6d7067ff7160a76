#include <cstring>

#include "kernels/common/dispatch.h"
#include "kernels/common/parallel.h"
#include "kernels/common/simd.h"
#include "kernels/elementwise/elementwise.h"

namespace genesis::cpu {

namespace {

constexpr int64_t kBlock = 32768;  // elements of one task

// y = f, in parallel; f(i, lanes) is the vector that starts at element i.
template <class T, class F>
void map(int64_t n, void* y, const F& f) {
  T* out = static_cast<T*>(y);
  parallel_for(block_count(n, kBlock), [&](int64_t block) {
    const int64_t begin = block * kBlock;
    for_vectors(std::min(n - begin, kBlock),
                [&](int64_t i, auto lanes) { store_vector(out + begin + i, f(begin + i, lanes), lanes); });
  });
}

}  // namespace

void cast(const Cast& a) {
  with_float_type(a.from, [&](auto from) {
    with_float_type(a.to, [&](auto to) {
      const auto* x = static_cast<const decltype(from)*>(a.x);
      map<decltype(to)>(a.n, a.y, [=](int64_t i, auto lanes) { return load_vector(x + i, lanes); });
    });
  });
}

void add(const Add& a) {
  with_float_type(a.dtype, [&](auto t) {
    using T = decltype(t);
    const T* x = static_cast<const T*>(a.a);
    const T* z = static_cast<const T*>(a.b);
    map<T>(a.n, a.y,
           [=](int64_t i, auto lanes) { return load_vector(x + i, lanes) + load_vector(z + i, lanes); });
  });
}

void zero(const Zero& a) {
  constexpr int64_t kBytes = kBlock * 4;
  char* y = static_cast<char*>(a.y);
  parallel_for(block_count(a.bytes, kBytes), [&](int64_t block) {
    std::memset(y + block * kBytes, 0, size_t(std::min(kBytes, a.bytes - block * kBytes)));
  });
}

}  // namespace genesis::cpu
