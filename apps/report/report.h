// The report of one run, or of several beside each other: one HTML file that needs nothing else.
#pragma once

#include <string>
#include <vector>

#include "apps/report/run_folder.h"

namespace genesis {

// Names that tell the runs apart: each folder's last part, or its path where two have the same.
std::vector<std::string> names_of(const std::vector<RunFolder>& runs);

// The runs in a few rows: {label, a value for each run}.
std::vector<std::vector<std::string>> facts_of(const std::vector<RunFolder>& runs);

struct ReportOptions {
  std::string title, made;          // a line under the title
  std::vector<std::string> curves;  // of panel_keys(); empty: all
};

std::string report_html(const std::vector<RunFolder>& runs, const ReportOptions& options);

// The curves alone. Throws Error where no run has recorded a step.
std::string report_svg(const std::vector<RunFolder>& runs, const ReportOptions& options);

}  // namespace genesis
