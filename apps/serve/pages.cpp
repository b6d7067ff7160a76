#include "apps/serve/pages.h"

#include <filesystem>
#include <vector>

#include "apps/page/page.h"
#include "apps/report/curves.h"

namespace genesis {
namespace {

constexpr size_t kPoints = 2000;  // of a curve

}  // namespace

Pages::Pages(const Catalogue& catalogue) : catalogue_(catalogue) {
  playground_ =
      fill_page(page_files::playground_html, {{"script", std::string(page_files::playground_js)},
                                              {"own_style", std::string(page_files::playground_css)}});
}

nlohmann::ordered_json Pages::runs() {
  const std::scoped_lock lock(mutex_);
  std::vector<const RunMetrics*> metrics;
  std::vector<std::string> names;
  for (const Catalogue::Source& source : catalogue_.sources()) {
    auto& reader = readers_[source.run_dir];
    if (!reader) {
      reader =
          std::make_unique<MetricsReader>((std::filesystem::path(source.run_dir) / "metrics.jsonl").string());
    }
    reader->update();
    metrics.push_back(&reader->metrics());
    names.push_back(source.name);
  }
  return {{"names", names}, {"panels", json_of(panels_of(metrics, kPoints))}};
}

}  // namespace genesis
