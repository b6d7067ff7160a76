// In the place of matmul_cublas.cpp where there is no CUDA to build with: nobody has the BlasLt that a product takes.
#include "kernels/matmul/matmul.h"

namespace genesis::cuda {

BlasLt::BlasLt() { throw Error("this build has no cuBLASLt: build it where the CUDA Toolkit is"); }
BlasLt::~BlasLt() = default;

struct MatMul::State {};

MatMul::MatMul(const MatMulShape&, const BlasLt&) {}
MatMul::~MatMul() = default;
MatMul::MatMul(MatMul&&) noexcept = default;
MatMul& MatMul::operator=(MatMul&&) noexcept = default;

void MatMul::operator()(const void*, const void*, void*, void*, Stream) const {
  require(false, "a product by cuBLASLt in a build without it");
}

}  // namespace genesis::cuda
