// Each op of the engine's table as a graph of one node, on each kind of device, against the double-precision
// reference: what stands between a kernel's tests and a model's. A device whose arguments are bound wrongly, whose
// workspace is too small or whose table is not uploaded is found here.
#include <map>

#include "engine/ops/table.h"
#include "tests/ops/attention_nodes.h"
#include "tests/ops/elementwise_nodes.h"
#include "tests/ops/embedding_nodes.h"
#include "tests/ops/head_loss_nodes.h"
#include "tests/ops/matmul_nodes.h"
#include "tests/ops/muon_nodes.h"
#include "tests/ops/optimizer_nodes.h"
#include "tests/ops/qk_norm_nodes.h"
#include "tests/ops/rmsnorm_nodes.h"
#include "tests/ops/rope_nodes.h"
#include "tests/ops/swiglu_nodes.h"
#include "tests/support/test_device.h"

using namespace genesis;

namespace {

using Check = void (*)(Device&);

const std::map<const OpDef*, Check> kChecks = {
    {&ops::kEmbedding, check_embedding},
    {&ops::kEmbeddingBackward, check_embedding_backward},
    {&ops::kRmsNorm, check_rmsnorm},
    {&ops::kRmsNormBackward, check_rmsnorm_backward},
    {&ops::kMatMul, check_matmul},
    {&ops::kRope, check_rope},
    {&ops::kQkNorm, check_qk_norm},
    {&ops::kQkNormBackward, check_qk_norm_backward},
    {&ops::kAttention, check_attention},
    {&ops::kAttentionBackward, check_attention_backward},
    {&ops::kAttentionCached, check_attention_cached},
    {&ops::kSwiGlu, check_swiglu},
    {&ops::kSwiGluBackward, check_swiglu_backward},
    {&ops::kHeadLoss, check_head_loss},
    {&ops::kAdd, check_add},
    {&ops::kZero, check_zero},
    {&ops::kGradNorm, check_grad_norm},
    {&ops::kAdamW, check_adamw},
    {&ops::kMuon, check_muon},
};

}  // namespace

TEST_CASE("ops: every op agrees with the reference on every device") {
  for (const TestDevice& test : test_devices()) {
    for (const OpDef* op : all_ops()) {
      DYNAMIC_SECTION(test.name << ", " << op->name) {
        REQUIRE(kChecks.count(op) == 1);
        const std::unique_ptr<Device> device = test.make();
        kChecks.at(op)(*device);
      }
    }
  }
}
