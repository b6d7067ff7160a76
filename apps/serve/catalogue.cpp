#include "apps/serve/catalogue.h"

#include <algorithm>
#include <filesystem>

#include "apps/report/run_folder.h"
#include "apps/serve/api_error.h"
#include "io/checkpoint_state.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;

std::string name_of(const fs::path& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

}  // namespace

Catalogue::Catalogue(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    Source source{name_of(path), path, ""};
    if (fs::exists(fs::path(path) / kCheckpointStateFile)) {
      source.checkpoint = path;
      source.run_dir = (fs::absolute(path).lexically_normal() / "../..").lexically_normal().string();
      source.name = name_of(source.run_dir);
    } else {
      read_run_folder(path);  // or says why not
    }
    const auto taken = [&](const std::string& name) {
      return std::any_of(sources_.begin(), sources_.end(), [&](const Source& s) { return s.name == name; });
    };
    const std::string name = source.name;
    for (int i = 2; taken(source.name); ++i) source.name = name + "-" + std::to_string(i);
    sources_.push_back(std::move(source));
  }
}

std::vector<CatalogueEntry> Catalogue::list(const Source& source) const {
  std::vector<CatalogueEntry> list;
  for (const CheckpointEntry& c : list_run_checkpoints(source.run_dir)) {
    const std::string path = (fs::path(source.run_dir) / "checkpoints" / c.name).string();
    std::error_code error;
    if (!source.checkpoint.empty() && !fs::equivalent(path, source.checkpoint, error)) continue;
    list.push_back({source.name + "/" + c.name, source.run_dir, path, c.step, c.tokens, c.bytes, c.problem});
  }
  std::reverse(list.begin(), list.end());
  const auto sound = std::find_if(list.begin(), list.end(), [](const auto& e) { return e.problem.empty(); });
  if (sound != list.end()) {
    CatalogueEntry latest = *sound;
    latest.id = source.name;
    list.insert(list.begin(), latest);
  }
  return list;
}

std::vector<CatalogueEntry> Catalogue::list() const {
  std::vector<CatalogueEntry> all;
  for (const Source& source : sources_) {
    for (CatalogueEntry& entry : list(source)) all.push_back(std::move(entry));
  }
  return all;
}

CatalogueEntry Catalogue::find(const std::string& id) const {
  const std::string wanted = id.empty() ? sources_.front().name : id;
  for (const Source& source : sources_) {
    if (wanted != source.name && !wanted.starts_with(source.name + "/")) continue;
    for (CatalogueEntry& entry : list(source)) {
      if (entry.id != wanted) continue;
      if (!entry.problem.empty()) throw ApiError(500, entry.problem, "model");
      return std::move(entry);
    }
    if (wanted == source.name)
      throw ApiError(503, "the run " + source.name + " has saved no checkpoint yet", "model");
  }
  throw ApiError(404, "there is no model '" + id.substr(0, 200) + "': /v1/models lists what there is",
                 "model", "model_not_found");
}

}  // namespace genesis
