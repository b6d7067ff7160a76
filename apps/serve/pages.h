// The playground page, and what it is told of the runs.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/serve/catalogue.h"
#include "io/run_metrics.h"

namespace genesis {

class Pages {
 public:
  // Nothing but what is in the page runs, and it talks to this server alone.
  static constexpr const char* kPolicy =
      "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

  explicit Pages(const Catalogue& catalogue);

  const std::string& playground() const { return playground_; }
  // {"names": [...], "panels": [...]}: the runs' curves so far (apps/report/curves.h), as their files are now.
  nlohmann::ordered_json runs();

 private:
  const Catalogue& catalogue_;
  std::string playground_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<MetricsReader>> readers_;  // by the run's folder
};

}  // namespace genesis
