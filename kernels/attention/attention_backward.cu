#include "kernels/attention/attention_backward_cuda.h"

namespace genesis::cuda {

void attention_backward(const AttentionBackward& a, Stream stream) {
  check_attention_shape(a.shape);
  if (!for_tensor_cores(a.shape)) return attention_backward_plain(a, stream);
  attention_dq(a, stream);
  attention_dkv(a, stream);
}

size_t attention_backward_workspace(const AttentionShape& s) {
  if (!for_tensor_cores(s)) return size_t(s.B * s.H * s.T) * sizeof(float);  // each query's mean
  return backward_workspace_bytes(s);
}

}  // namespace genesis::cuda
