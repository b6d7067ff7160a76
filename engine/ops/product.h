// A matrix product on either kind of device: what the ops that multiply are made of.
#pragma once

#include <functional>

#include "engine/device/device.h"
#include "kernels/matmul/matmul.h"

namespace genesis {

// Prepared: c (+)= op(a) op(b), with product_workspace bytes of scratch memory, 256-byte aligned.
using Product = std::function<void(const void* a, const void* b, void* c, void* workspace, Stream stream)>;
Product prepare_product(const MatMulShape& shape, Device& device);
size_t product_workspace(const MatMulShape& shape, DeviceKind kind);

}  // namespace genesis
