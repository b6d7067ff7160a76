#pragma once

#include "engine/ops/optimizer.h"
#include "kernels/adamw/adamw_cases.h"
#include "kernels/grad_norm/grad_norm_cases.h"
#include "tests/ops/one_node.h"

namespace genesis {

inline void check_grad_norm(Device& device) {
  for (const auto& c : grad_norm_cases()) {
    INFO(c.name);
    const GradNormProblem p(c);
    std::vector<Array> in{{p.loss_and_count, {p.loss_and_count.size()}}};
    for (const Buffer& g : p.grads) in.push_back({g, {g.size()}});
    OneNode(device, ops::kGradNorm, GradNormAttrs{c.max_norm}, in, {}, {{p.norm_and_scale, {2}}});
    check_results(grad_norm_results(p));
  }
}

inline void check_adamw(Device& device) {
  for (const auto& c : adamw_cases()) {
    INFO(c.name);
    const AdamWProblem p(c);
    const auto expected = adamw_results(p);
    const AdamW args = p.args();
    AdamWAttrs attrs{args.beta1, args.beta2, args.eps, {}};
    std::vector<Array> in{{p.step, {3}}, {p.norm_and_scale, {2}}}, into;
    for (size_t i = 0; i < p.arrays.size(); ++i) {
      attrs.tensors.push_back({args.tensors[i].weight_decay, 0});
      in.push_back({p.arrays[i].grad, {c.sizes[i]}});
    }
    for (const auto array : {&AdamWProblem::Arrays::master, &AdamWProblem::Arrays::m,
                             &AdamWProblem::Arrays::v, &AdamWProblem::Arrays::copy}) {
      for (const auto& a : p.arrays) {
        if ((a.*array).data()) into.push_back({a.*array, {(a.*array).size()}});
      }
    }
    OneNode(device, ops::kAdamW, attrs, in, {}, into);
    check_results(expected);
    check_results(adamw_copy_results(p));
  }
}

}  // namespace genesis
