// backplane quantize: a model with fewer bits a weight.

#include <cstdio>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backplane/dtype.hpp"
#include "backplane/plugin.hpp"
#include "core/cli/commands.hpp"
#include "core/cli/output_file.hpp"
#include "core/cli/progress.hpp"
#include "core/convert/quantize_file.hpp"
#include "core/convert/unfinished_file.hpp"
#include "core/runtime/runtime.hpp"

namespace bp::cli {

namespace {

Result<std::optional<convert::ImportanceMatrix>> read_imatrix(runtime::Runtime& runtime,
                                                              const std::string& path) {
  if (path.empty()) return std::optional<convert::ImportanceMatrix>();
  BP_ASSIGN(const auto file, runtime.open_model(path, "auto"));
  BP_ASSIGN(auto matrix, convert::read_importance(*file));
  return std::optional(std::move(matrix));
}

void print(const convert::QuantizeReport& report, const std::string& title) {
  for (const std::string& note : report.notes) fmt::print(stderr, "note: {}\n", note);
  const auto megabytes = [](uint64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  fmt::print("{}: {:.1f} MB to {:.1f} MB, {:.2f} bits a weight\n", title,
             megabytes(report.bytes_before), megabytes(report.bytes_after),
             8.0 * static_cast<double>(report.bytes_after) /
                 static_cast<double>(std::max<uint64_t>(report.n_parameters, 1)));
}

void print_types(const convert::QuantizeReport& report) {
  for (const convert::TensorChange& tensor : report.tensors) {
    fmt::print("{} {} {} {}\n", tensor.name, fmt::join(tensor.dims, "x"), dtype_name(tensor.before),
               dtype_name(tensor.after));
  }
}

}  // namespace

Status quantize(const QuantizeOptions& options) {
  BP_ASSIGN(const auto* mixture, quantize::find_mixture(options.type));
  BP_ASSIGN(const auto runtime, runtime::default_runtime(options.n_threads));
  BP_ASSIGN(const auto in, runtime->open_model(options.in, "auto"));
  BP_ASSIGN(const auto imatrix, read_imatrix(*runtime, options.imatrix));
  ProgressBar progress("quantize");
  convert::QuantizeOptions how;
  how.mixture = mixture;
  how.pure = options.pure;
  how.importance = imatrix ? &*imatrix : nullptr;
  how.threads = runtime->threads();
  how.progress = progress.c();
  if (options.dry_run) {
    BP_ASSIGN(const auto plan, convert::plan_quantize(*in, how));
    progress.clear();
    print_types(plan);
    print(plan, options.type);
    return {};
  }
  BP_TRY(expect_output(options.out, *in, options.imatrix));
  convert::remove_unfinished_on_signals();
  auto report = convert::quantize_file(*in, options.out, how);
  progress.clear();
  if (!report.ok()) return report.status();
  print(*report, options.out);
  return {};
}

}  // namespace bp::cli
