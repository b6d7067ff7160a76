// What stands in for cuBLASLt where the CUDA kernels run on the host executor: oneDNN, between their launches.
#include "kernels/matmul/matmul.h"
#include "kernels/simt/device.h"

namespace genesis::cuda {

BlasLt::BlasLt() = default;
BlasLt::~BlasLt() = default;

struct MatMul::State {
  cpu::MatMul product;
};

MatMul::MatMul(const MatMulShape& shape, const BlasLt&)
    : state_(std::make_unique<State>(State{cpu::MatMul(shape)})) {}
MatMul::~MatMul() = default;
MatMul::MatMul(MatMul&&) noexcept = default;
MatMul& MatMul::operator=(MatMul&&) noexcept = default;

const MatMulShape& MatMul::shape() const { return state_->product.shape(); }

void MatMul::operator()(const void* a, const void* b, void* c, void*, Stream) const {
  simt::finish();  // the arrays can be read from here on
  state_->product(a, b, c);
}

}  // namespace genesis::cuda
