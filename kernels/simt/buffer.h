// Device memory for tests and benches: the same calls for a GPU and for the host executor, by the library that
// is linked. On the host the addresses have no memory behind them for anyone but simt::load and simt::store, so
// that an access that bypasses the checks faults, as it would on a GPU.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace genesis::simt {

void* allocate(size_t bytes, const std::string& name);  // aligned to 256 bytes; filled with the bytes 0xff
void release(void* device) noexcept;
void copy_in(void* device, const void* source, size_t bytes);   // waits for all work queued before
void copy_out(void* target, const void* device, size_t bytes);  // likewise

// n elements of device memory. The name is for errors.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit Buffer(size_t n, const std::string& name = "buffer")
      : n_(n), data_(static_cast<T*>(allocate(n * sizeof(T), name))) {}
  explicit Buffer(std::span<const T> values, const std::string& name = "buffer") : Buffer(values.size(), name) {
    copy_in(data_, values.data(), n_ * sizeof(T));
  }
  explicit Buffer(const std::vector<T>& values, const std::string& name = "buffer")
      : Buffer(std::span<const T>(values), name) {}
  Buffer(Buffer&& other) noexcept : n_(other.n_), data_(std::exchange(other.data_, nullptr)) {}
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer() {
    if (data_) release(data_);
  }

  T* data() const { return data_; }
  size_t size() const { return n_; }
  std::vector<T> values() const {
    std::vector<T> v(n_);
    copy_out(v.data(), data_, n_ * sizeof(T));
    return v;
  }

 private:
  size_t n_;
  T* data_;
};

}  // namespace genesis::simt
