#include "engine/ops/product.h"

namespace genesis {

Product prepare_product(const MatMulShape& shape, Device& device) {
  if (device.kind() == DeviceKind::cpu) {
    return [product = std::make_shared<cpu::MatMul>(shape)](const void* a, const void* b, void* c,
                                                            void* workspace,
                                                            Stream) { (*product)(a, b, c, workspace); };
  }
  return [product = std::make_shared<cuda::MatMul>(shape, device.blas())](
             const void* a, const void* b, void* c, void* workspace, Stream stream) {
    (*product)(a, b, c, workspace, stream);
  };
}

size_t product_workspace(const MatMulShape& shape, DeviceKind kind) {
  return kind == DeviceKind::cpu ? cpu::matmul_workspace(shape) : cuda::kMatMulWorkspace;
}

}  // namespace genesis
