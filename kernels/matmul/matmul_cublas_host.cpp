// What stands in for cuBLASLt where the CUDA kernels run on the host executor: oneDNN, between their launches.
#include "kernels/common/buffer.h"
#include "kernels/matmul/matmul.h"
#include "kernels/simt/device.h"

namespace genesis::cuda {

BlasLt::BlasLt() = default;
BlasLt::~BlasLt() = default;

struct MatMul::State {
  explicit State(const MatMulShape& shape)
      : product(shape), scratch(DType::i32, int64_t(cpu::matmul_workspace(shape) / sizeof(int32_t))) {}

  cpu::MatMul product;
  Buffer scratch;
};

MatMul::MatMul(const MatMulShape& shape, const BlasLt&) : state_(std::make_unique<State>(shape)) {}
MatMul::~MatMul() = default;
MatMul::MatMul(MatMul&&) noexcept = default;
MatMul& MatMul::operator=(MatMul&&) noexcept = default;

const MatMulShape& MatMul::shape() const { return state_->product.shape(); }

void MatMul::operator()(const void* a, const void* b, void* c, void*, Stream) const {
  simt::finish();  // the arrays can be read from here on
  state_->product(a, b, c, state_->scratch.data());
}

}  // namespace genesis::cuda
