// What the launchers and kernels of attention on CUDA share.
#pragma once

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_tiling.h"
#include "kernels/common/block_count.h"
#include "kernels/common/error.h"
#include "kernels/simt/simt.h"

namespace genesis::cuda {

inline void check_attention_shape(const AttentionShape& s) {
  require(s.KV > 0 && s.H % s.KV == 0,
          "attention takes a number of heads that is a multiple of the key heads'");
  require(s.K % 8 == 0 && s.K > 0 && s.K <= 256,
          "attention takes a head size that is a multiple of 8, up to 256");
  require(s.scale > 0.f, "attention takes a positive scale");
  require(s.B * s.H * s.T < int64_t(1) << 31, "attention takes fewer than 2^31 rows");
}

void attention_forward_plain(const AttentionForward& a, Stream stream);
void attention_backward_plain(const AttentionBackward& a, Stream stream);

// The first key that row t sees.
__device__ inline int first_key(const int32_t* positions, int t) {
  return positions ? t - simt::load(positions + t) : 0;
}

}  // namespace genesis::cuda
