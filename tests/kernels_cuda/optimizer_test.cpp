// AdamW and the gradient norm: one launch over many tensors.
#include "kernels/adamw/adamw_cases.h"
#include "kernels/grad_norm/grad_norm_cases.h"
#include "kernels/simt/device.h"
#include "kernels/simt/session.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace genesis;

TEST_CASE("adamw: the CUDA kernel agrees with the reference") {
  for (const auto& c : adamw_cases()) {
    INFO(c.name);
    simt::in_all_orders([&](simt::Session&) {
      AdamWProblem p(c, simt::kDeviceMemory);
      const auto expected = adamw_results(p);
      cuda::adamw(p.args(), {});
      simt::finish();
      for (const auto& r : expected) CHECK(mismatch(r) == "");
      for (const auto& r : adamw_copy_results(p)) CHECK(mismatch(r) == "");
    });
  }
}

TEST_CASE("adamw: a scale that is not finite leaves every array on CUDA as it was") {
  for (const float scale : {NAN, INFINITY}) {
    AdamWProblem p({"bad", {100, 20000}, true, 3, scale}, simt::kDeviceMemory);
    for (auto& a : p.arrays) a.copy.fill(7);
    const auto values = [&] {
      std::vector<std::vector<double>> all;
      for (const auto& a : p.arrays) {
        for (const Buffer* b : {&a.master, &a.m, &a.v, &a.copy}) all.push_back(b->to_double());
      }
      return all;
    };
    const auto before = values();
    simt::Session session;
    cuda::adamw(p.args(), {});
    simt::finish();
    CHECK(values() == before);
  }
}

TEST_CASE("grad_norm: the CUDA kernels agree with the reference") {
  for (const auto& c : grad_norm_cases()) {
    INFO(c.name);
    std::vector<double> bits;
    simt::in_all_orders([&](simt::Session&) {
      GradNormProblem p(c, simt::kDeviceMemory);
      std::vector<GradTensor> host;
      for (size_t i = 0; i < c.sizes.size(); ++i) host.push_back({nullptr, c.sizes[i]});
      p.set_workspace(cuda::grad_norm_workspace(host.data(), p.count()), simt::kDeviceMemory);
      cuda::grad_norm(p.args(), {});
      simt::finish();
      for (const auto& r : grad_norm_results(p)) CHECK(mismatch(r) == "");
      CHECK(p.workspace.guard_intact());
      const auto now = p.norm_and_scale.to_double();
      if (!bits.empty() && !std::isnan(now[1])) CHECK(now == bits);  // in every order
      bits = now;
    });
  }
}

TEST_CASE("grad_norm: a gradient that is not finite makes the CUDA scale NaN") {
  for (const double bad : {double(NAN), double(INFINITY)}) {
    GradNormProblem p({"bad", {300, 40000}}, simt::kDeviceMemory);
    p.set_workspace(1024, simt::kDeviceMemory);
    p.grads[1].set(39999, bad);
    simt::Session session;
    cuda::grad_norm(p.args(), {});
    simt::finish();
    CHECK(std::isnan(p.norm_and_scale.get(1)));
  }
}
