#include "kernels/common/buffer.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "kernels/common/bf16.h"
#include "kernels/common/error.h"
#include "kernels/common/random.h"

namespace genesis {

namespace {

constexpr size_t kGuardBytes = 256;
constexpr unsigned char kPoison = 0xff;

size_t bytes_of(DType dtype, int64_t n) { return size_t(n) * size_of(dtype); }

}  // namespace

const Memory kHostMemory = {
    [](size_t bytes, size_t guard) { return ::operator new(bytes + guard, std::align_val_t(64)); },
    [](void* p) { ::operator delete(p, std::align_val_t(64)); }};

Buffer::Buffer(DType dtype, int64_t n, const Memory& memory) : dtype_(dtype), n_(n), memory_(memory) {
  const size_t bytes = bytes_of(dtype, n);
  data_ = memory_.allocate(bytes, kGuardBytes);
  std::memset(data_, kPoison, bytes + kGuardBytes);
}

Buffer::Buffer(Buffer&& other) noexcept
    : dtype_(other.dtype_),
      n_(std::exchange(other.n_, 0)),
      memory_(other.memory_),
      data_(std::exchange(other.data_, nullptr)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(dtype_, other.dtype_);
  std::swap(n_, other.n_);
  std::swap(memory_, other.memory_);
  std::swap(data_, other.data_);
  return *this;
}

Buffer::~Buffer() {
  if (data_) memory_.release(data_);
}

double Buffer::get(int64_t i) const {
  switch (dtype_) {
    case DType::f32:
      return as<float>()[i];
    case DType::bf16:
      return float(as<bf16>()[i]);
    case DType::i32:
      return as<int32_t>()[i];
  }
  return 0;
}

void Buffer::set(int64_t i, double value) {
  switch (dtype_) {
    case DType::f32:
      as<float>()[i] = float(value);
      break;
    case DType::bf16:
      as<bf16>()[i] = bf16(float(value));
      break;
    case DType::i32:
      as<int32_t>()[i] = int32_t(value);
      break;
  }
}

void Buffer::fill(double value) {
  for (int64_t i = 0; i < n_; ++i) set(i, value);
}

void Buffer::fill_normal(uint64_t seed, uint64_t stream, double mean, double deviation) {
  std::vector<float> values(static_cast<size_t>(n_));
  genesis::fill_normal(values.data(), n_, seed, stream, mean, deviation);
  for (int64_t i = 0; i < n_; ++i) set(i, values[size_t(i)]);
}

void Buffer::copy_from(const Buffer& other) {
  require(dtype_ == other.dtype_ && n_ == other.n_, "copy between buffers of different size or type");
  if (n_) std::memcpy(data_, other.data_, bytes_of(dtype_, n_));
}

std::vector<double> Buffer::to_double() const {
  std::vector<double> values(static_cast<size_t>(n_));
  for (int64_t i = 0; i < n_; ++i) values[size_t(i)] = get(i);
  return values;
}

bool Buffer::guard_intact() const {
  if (!data_) return true;
  const auto* guard = static_cast<const unsigned char*>(data_) + bytes_of(dtype_, n_);
  return std::all_of(guard, guard + kGuardBytes, [](unsigned char c) { return c == kPoison; });
}

}  // namespace genesis
