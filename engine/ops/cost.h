// What a node costs: the model's operations in it, and the kernels that do them on a GPU.
#pragma once

#include <cstdint>
#include <vector>

namespace genesis {

// What does a kernel's operations.
enum class Unit : uint8_t {
  library,  // cuBLASLt's matrix products, by the fastest instructions that a card has
  mma,      // mma.sync, in kernels of our own
  fma,      // fp32 arithmetic outside of the tensor cores, matrix products in fp32 included
};

// A kernel of a node, all its launches together.
struct KernelCost {
  const char* name;
  Unit unit = Unit::fma;
  double flops = 0;  // that it does: whole tiles, and what it computes again
  double bytes = 0;  // of memory, read and written: each array once a launch, as if caches lost nothing
  double launches = 1;
};

struct Cost {
  double flops = 0;                      // of the model: each product once, of causal attention half
  double backward_flops = 0;             // of them the backward pass's, in a node of the forward pass
  std::vector<KernelCost> kernels = {};  // each kernel once, however its launches alternate with others'

  double kernel_flops() const {
    double sum = 0;
    for (const KernelCost& k : kernels) sum += k.flops;
    return sum;
  }
};

}  // namespace genesis
