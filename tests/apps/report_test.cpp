// genesis_report: what it makes of a run's folder.
#include "apps/report/report.h"

#include <algorithm>
#include <limits>

#include "apps/page/page.h"
#include "apps/report/curves.h"
#include "tests/apps/shell.h"
#include "tests/apps/tiny_run.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

using namespace genesis;

namespace {

RunMetrics steps_of(const std::vector<double>& losses) {
  RunMetrics metrics;
  for (double loss : losses) {
    StepRecord r;
    r.step = int64_t(metrics.steps.size()) + 1;
    r.tokens = 10 * r.step;
    r.loss = loss;
    metrics.steps.push_back(r);
  }
  return metrics;
}

const Panel& panel(const std::vector<Panel>& panels, const std::string& key) {
  const auto it = std::find_if(panels.begin(), panels.end(), [&](const Panel& p) { return p.key == key; });
  REQUIRE(it != panels.end());
  return *it;
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("a long curve keeps its means and its extremes") {
  std::vector<double> losses(1000, 2.0);
  losses[500] = 30.0;
  losses[777] = std::numeric_limits<double>::quiet_NaN();
  const RunMetrics metrics = steps_of(losses);
  const RunMetrics* runs[] = {&metrics};
  const std::vector<CurvePoint> points = panel(panels_of(runs, 100), "loss").curves[0].points;
  REQUIRE(points.size() == 100);
  double sum = 0, most = 0;
  for (const CurvePoint& p : points) {
    CHECK(p.tokens == 10 * double(p.step));
    CHECK((p.low <= p.value && p.value <= p.high));
    most = std::max(most, p.high);
    sum += p.value;
  }
  CHECK(most == 30.0);
  CHECK(sum == Approx(198 + 2 + 2.8));  // nine of ten at 2, one of ten at 30, in one of the points
  CHECK(std::is_sorted(points.begin(), points.end(), [](auto& a, auto& b) { return a.step < b.step; }));
}

TEST_CASE("runs are compared by color, the curves of one run have one each") {
  RunMetrics metrics = steps_of({3, 2, 1});
  metrics.evaluations = {{3, 1, 1.5, 2.0}, {3, 2, 1.25, std::nullopt}};
  const RunMetrics *one[] = {&metrics}, *two[] = {&metrics, &metrics};
  const auto colors = [](const Panel& p) {
    std::vector<int> list;
    for (const Curve& c : p.curves) list.push_back(c.color);
    return list;
  };
  const std::vector<Panel> single = panels_of(one, 10), both = panels_of(two, 10);
  CHECK(colors(panel(single, "loss")) == std::vector<int>{0, 1, 2});
  CHECK(colors(panel(both, "loss")) == std::vector<int>{0, 1, 0, 0, 1, 1});
  CHECK(panel(single, "loss").curves[1].name == "validation, K = 1");
  CHECK(panel(single, "loss").curves[1].points[0].tokens == 30);
  CHECK(panel(single, "bits-per-byte").curves.size() == 1);
  CHECK(std::none_of(single.begin(), single.end(), [](const Panel& p) { return p.key == "mfu"; }));
}

TEST_CASE("text that looks like HTML stays text in a page") {
  CHECK(escape_html("<b a='1'>&\"") == "&lt;b a=&#39;1&#39;&gt;&amp;&quot;");
  const std::string hostile = "</script><script>alert(1)</script>\xff";
  const std::string json = json_in_html({{"text", hostile}});
  CHECK(json.find('<') == std::string::npos);
  CHECK(nlohmann::json::parse(json)["text"] == hostile.substr(0, hostile.size() - 1) + "\xef\xbf\xbd");
  CHECK(fill_page("a {{x}} b", {{"x", "{{x}}"}}) == "a {{x}} b");

  RunFolder run;
  run.path = run.name = hostile;
  run.config_text = hostile;
  run.notes = {hostile};
  run.metrics = steps_of({3, 2, 1});
  const std::string html = report_html({run}, {hostile, hostile, {}});
  CHECK(count(html, "<script") == 2);  // the data and the program
  CHECK(count(html, "</script") == 2);
  CHECK(count(html, "alert(1)<") == 0);
  CHECK(count(html, "://") == count(html, "http://www.w3.org/2000/svg"));  // nothing is fetched
}

TEST_CASE("genesis_report shows a run that was trained, and refuses what is none") {
  TinyRun tiny;
  tiny.trainer(tiny.config("one", {"--eval.every=5", "--checkpoint.every=10"}))->run();
  tiny.trainer(tiny.config("two", {"--optim.lr=2e-2"}))->run();
  const Shell shell("genesis_report");
  const std::string one = tiny.folder.file("one"), two = tiny.folder.file("two");

  REQUIRE(shell.run(one + "/").code == 0);
  const std::string html = read_text_file(one + "/report.html");
  CHECK(lacks(html, "20 of 20") == "");
  CHECK(lacks(html, "<svg") == "");
  CHECK(lacks(html, "run_dir: ") == "");

  const Outcome compared = shell.run(one + " " + two + " --html both.html --svg both.svg --curves loss,lr");
  REQUIRE(compared.code == 0);
  CHECK(compared.out == "both.svg\nboth.html\n");
  const std::string svg = read_text_file(shell.folder.file("both.svg"));
  CHECK(count(svg, "class=\"title\"") == 2);
  CHECK(count(svg, "</svg>") == 1);
  CHECK(lacks(read_text_file(shell.folder.file("both.html")), R"(["optim.lr","0.01","0.02"])") == "");

  const RunFolder folder = read_run_folder(one);
  REQUIRE(folder.checkpoints.size() == 2);
  CHECK(folder.checkpoints[1].step == 20);
  CHECK(folder.checkpoints[1].tokens == 20 * 4 * 16);
  CHECK(folder.checkpoints[1].problem == "");
  CHECK(folder.metrics.evaluations.size() == 4);
  CHECK(folder.notes.empty());

  // What is half there is shown with what is wrong with it.
  replace_text_file(one + "/checkpoints/step_00000010/state.json", "{");
  replace_text_file(one + "/config.yaml", "no: config\n");
  const RunFolder broken = read_run_folder(one);
  CHECK(broken.checkpoints[0].problem != "");
  CHECK(broken.notes.size() == 1);
  CHECK(shell.run(one).code == 0);

  CHECK(lacks(shell.run(one + " " + two).err, "--html or --svg") == "");
  CHECK(lacks(shell.run("nothing").err, "no such folder") == "");
  CHECK(lacks(shell.run(".").err, "not a run's folder") == "");
  CHECK(shell.run(one + " --curves speed").code == 2);
  shell.folder.put("config.yaml", "no: config\n");
  CHECK(lacks(shell.run(". --svg empty.svg").err, "nothing to draw yet") == "");
  CHECK_FALSE(shell.exists("empty.svg"));
}
