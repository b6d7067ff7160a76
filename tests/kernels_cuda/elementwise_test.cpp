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
