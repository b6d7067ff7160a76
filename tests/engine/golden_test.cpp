// The text of a graph after each pass. A test that fails says how to take over a change that is meant.
#include "tests/support/golden.h"

#include "engine/passes/differentiate.h"
#include "engine/passes/print.h"
#include "engine/passes/recompute.h"
#include "tests/engine/small_graph.h"
#include "tests/support/catch.h"

using namespace genesis;

TEST_CASE("golden: a layer, run twice, after each pass") {
  SmallGraph g(2);
  CHECK(golden_mismatch("engine/golden/1_build", to_string(g.graph)) == "");
  differentiate(g.graph);
  CHECK(golden_mismatch("engine/golden/2_differentiate", to_string(g.graph)) == "");
  append_adamw(g);
  CHECK(golden_mismatch("engine/golden/3_optimizer", to_string(g.graph)) == "");
  recompute(g.graph, RecomputePolicy::block, DeviceKind::cpu, kCpuRates);
  CHECK(golden_mismatch("engine/golden/4_recompute_block", to_string(g.graph)) == "");
}
