#include "kernels/qk_norm/qk_norm.h"

#include "kernels/common/error.h"
#include "kernels/qk_norm/qk_norm_cases.h"
#include "kernels/simt/device.h"
#include "kernels/simt/session.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace genesis;

TEST_CASE("qk_norm: the CUDA kernels agree with the reference and leave the values alone") {
  for (const auto& c : kQkNormCases) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      INFO(c.name << ", " << name_of(dtype));
      std::vector<double> bits;
      simt::in_all_orders([&](simt::Session&) {
        const QkNormProblem p(c, dtype, cuda::qk_norm_backward_workspace(c.rows, c.K), simt::kDeviceMemory);
        const auto qkv = p.qkv.to_double(), before = p.d_qkv.to_double();
        const Result forward = qk_norm_forward_result(p);
        const auto backward = qk_norm_backward_results(p);
        cuda::qk_norm_forward(p.forward(), {});
        cuda::qk_norm_backward(p.backward(), {});
        simt::finish();
        CHECK(mismatch(forward) == "");
        for (const Result& r : backward) CHECK(mismatch(r) == "");
        std::vector<double> after;
        for (const Buffer* b : {&p.rotated, &p.d_qkv, &p.d_q_weight, &p.d_k_weight}) {
          const auto values = b->to_double();
          after.insert(after.end(), values.begin(), values.end());
        }
        const int64_t row = p.shape().row(), n = c.rows * row;
        int64_t changed_values = 0;
        for (int64_t i = 0; i < n; ++i) {
          if (i % row < (c.H + c.KV) * c.K) continue;
          changed_values += after[size_t(i)] != qkv[size_t(i)] || after[size_t(n + i)] != before[size_t(i)];
        }
        CHECK(changed_values == 0);
        if (bits.empty()) bits = after;
        CHECK(after == bits);
      });
    }
  }
}

TEST_CASE("qk_norm: the CUDA launchers refuse an odd head and one that is too large") {
  for (const int64_t K : {7, 258}) {
    CHECK_THROWS_AS(cuda::qk_norm_forward({.shape = {.rows = 1, .H = 1, .KV = 1, .K = K}}, {}), Error);
    CHECK_THROWS_AS(cuda::qk_norm_backward({.shape = {.rows = 1, .H = 1, .KV = 1, .K = K}}, {}), Error);
  }
}
