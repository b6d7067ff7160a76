#include "kernels/elementwise/elementwise.h"

#include "kernels/elementwise/elementwise_cases.h"
#include "kernels/simt/device.h"
#include "kernels/simt/session.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace genesis;

TEST_CASE("elementwise: the CUDA kernels agree with the reference") {
  for (const int64_t n : kElementwiseCases) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      INFO(n << " elements, " << name_of(dtype));
      const auto run = [&](simt::Session&) {
        ElementwiseProblem p(n, dtype, simt::kDeviceMemory);
        cuda::add(p.add(), {});
        simt::finish();
        CHECK(mismatch(add_result(p)) == "");
        cuda::scale(p.scale(), {});
        simt::finish();
        CHECK(mismatch(scale_result(p)) == "");
        for (const DType to : {DType::f32, DType::bf16}) {
          Buffer y(to, n, simt::kDeviceMemory);
          cuda::cast(p.cast(y), {});
          simt::finish();
          CHECK(mismatch(cast_result(p, y)) == "");
        }
        cuda::zero(p.zero(), {});
        simt::finish();
        CHECK(mismatch({"zero", &p.y, std::vector<double>(size_t(n)), {}}) == "");
      };
      simt::in_all_orders(run);
    }
  }
}

TEST_CASE("elementwise: memory is touched once, 16 bytes a thread", "[counts]") {
  const int64_t n = 32768;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const ElementwiseProblem p(n, dtype, simt::kDeviceMemory);
    simt::Session session;
    cuda::add(p.add(), {});
    cuda::zero(p.zero(), {});
    const auto sectors = n * int64_t(size_of(dtype)) / 32;
    CHECK(session.report("add").global_reads().sectors == 2 * sectors);
    CHECK(session.report("add").global_writes().sectors == sectors);
    CHECK(session.report("zero").global_writes().sectors == sectors);
    for (const simt::SiteCount& s : session.report("add").sites) CHECK(s.bytes == 16);
  }
}
