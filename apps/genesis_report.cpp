// genesis_report RUN_DIR...: a run, or several beside each other, as one HTML file or one picture.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ctime>
#include <iostream>

#include "apps/main.h"
#include "apps/report/curves.h"
#include "apps/report/report.h"
#include "io/file.h"
#include "kernels/common/error.h"

using namespace genesis;

namespace {

struct Options {
  std::vector<std::string> runs;
  std::string html, svg;
  ReportOptions report;
};

void write_report(Options o) {
  std::vector<RunFolder> runs;
  for (const std::string& path : o.runs) {
    runs.push_back(read_run_folder(path));
    for (const std::string& note : runs.back().notes) std::cerr << "genesis_report: " << note << "\n";
  }
  const bool own = o.html.empty() && o.svg.empty();
  check(!own || runs.size() == 1,
        "several runs have no one folder to write into: name a file with --html or --svg");
  const std::string html = own ? o.runs[0] + "/report.html" : o.html;
  if (o.report.title.empty()) o.report.title = fmt::format("{}", fmt::join(names_of(runs), ", "));
  o.report.made =
      fmt::format("As of {:%Y-%m-%d %H:%M}, by genesis_report", fmt::localtime(std::time(nullptr)));
  const auto put = [](const std::string& path, const std::string& text) {
    replace_text_file(path, text);
    std::cout << path << "\n";
  };
  if (!o.svg.empty()) put(o.svg, report_svg(runs, o.report));
  if (!html.empty()) put(html, report_html(runs, o.report));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Shows what a run has done: its curves, config, samples and checkpoints; several runs compared.",
      "genesis_report"};
  Options o;
  app.add_option("runs", o.runs, "runs' folders")->required();
  app.add_option("--html", o.html,
                 "the file to write; of one run it is RUN_DIR/report.html if nothing is named");
  app.add_option("--svg", o.svg, "write the curves alone, as a picture");
  app.add_option("--curves", o.report.curves, "show these alone, in one list: loss,bits-per-byte")
      ->delimiter(',')
      ->check(CLI::IsMember(panel_keys()));
  app.add_option("--title", o.report.title, "what stands above; the runs' names if nothing is given");
  return run_main(app, argc, argv, [&] { write_report(o); });
}
