// Work is split by shapes: sums have the same bits with any number of threads.
#include "kernels/common/parallel.h"
#include "kernels/cross_entropy/cross_entropy_cases.h"
#include "kernels/embedding/embedding_cases.h"
#include "kernels/grad_norm/grad_norm_cases.h"
#include "kernels/rmsnorm/rmsnorm_cases.h"
#include "tests/support/catch.h"

using namespace genesis;

namespace {

// Calls run(), which gives what an op wrote, with several numbers of threads.
template <class Run>
void check_same_with_any_threads(const Run& run) {
  const int threads = thread_count();
  set_thread_count(1);
  const std::vector<double> expected = run();
  for (const int n : {2, 3, 8}) {
    set_thread_count(n);
    INFO(n << " threads");
    CHECK(run() == expected);
  }
  set_thread_count(threads);
}

}  // namespace

TEST_CASE("rmsnorm: d_weight has the same bits with any number of threads") {
  check_same_with_any_threads([] {
    RmsNormProblem p({"threads", 500, 300}, DType::bf16, cpu::rmsnorm_backward_workspace(500, 300));
    cpu::rmsnorm_forward(p.forward());
    cpu::rmsnorm_backward(p.backward());
    return p.d_weight.to_double();
  });
}

TEST_CASE("embedding: d_table has the same bits with any number of threads") {
  check_same_with_any_threads([] {
    EmbeddingProblem p({"threads", 2000, 50, 16, 9}, DType::bf16,
                       cpu::embedding_backward_workspace(2000, 50));
    cpu::embedding_backward(p.backward());
    return p.d_table.to_double();
  });
}

TEST_CASE("cross_entropy: the loss has the same bits with any number of threads") {
  check_same_with_any_threads([] {
    CrossEntropyProblem p({"threads", 300, 100, 100, 0.f, 7}, DType::f32, DType::bf16);
    cpu::cross_entropy(p.args());
    return p.loss_and_count.to_double();
  });
}

TEST_CASE("grad_norm: the norm has the same bits with any number of threads") {
  check_same_with_any_threads([] {
    GradNormProblem p({"threads", {100000, 70000, 3}});
    p.set_workspace(cpu::grad_norm_workspace(p.tensors.as<GradTensor>(), p.count()));
    cpu::grad_norm(p.args());
    return p.norm_and_scale.to_double();
  });
}
