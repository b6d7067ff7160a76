// Arrays for tests and benchmarks, in host memory or in memory that host and device share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/common/dtype.h"

namespace genesis {

// Where a Buffer's bytes come from. A device's tests and benchmarks bring their own; the host must be able to
// read and write it (CUDA: managed memory).
struct Memory {
  // `bytes` for kernels and behind them `guard` that none may touch; aligned to 64 bytes.
  void* (*allocate)(size_t bytes, size_t guard) = nullptr;
  void (*release)(void*) = nullptr;
};
extern const Memory kHostMemory;

// n elements, 64-byte aligned, with a guard behind them. All bytes are 0xff at first, so that what a kernel
// should have written and did not is NaN (or -1).
class Buffer {
 public:
  Buffer() = default;  // no array: data() is null
  Buffer(DType dtype, int64_t n, const Memory& memory = kHostMemory);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  DType dtype() const { return dtype_; }
  int64_t size() const { return n_; }
  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

  double get(int64_t i) const;
  void set(int64_t i, double value);  // rounded to the type
  void fill(double value);
  // The numbers of fill_normal in random.h, rounded to the type.
  void fill_normal(uint64_t seed, uint64_t stream, double mean = 0, double deviation = 1);
  void copy_from(const Buffer& other);  // same size and type
  std::vector<double> to_double() const;
  // Whether the guard behind the elements is as it was: nothing was written past the end.
  bool guard_intact() const;

 private:
  DType dtype_ = DType::f32;
  int64_t n_ = 0;
  Memory memory_;
  void* data_ = nullptr;
};

}  // namespace genesis
