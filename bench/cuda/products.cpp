// Times single products of a backend plugin by type and number of rows, so that the limits between
// kernels can be set where they cross.
// usage: products PLUGIN.plugin.yaml DTYPE N_IN N_OUT [KEY=VALUE ...] [--megabytes N] ROWS...
// Prints a line for each number of rows: the time of one product, of a step of many by different
// weights, less the time of a step without products; the weights' bytes and operations per second.
// All take one x, prepared once: that time, divided by their number, is as good as left out.
// --megabytes: of weights, 400 unless told: more than any cache holds.

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backplane/dtype.hpp"
#include "bench/cuda/shapes.hpp"
#include "sdk/conformance/subject.hpp"
#include "sdk/conformance/support/backend_session.hpp"
#include "sdk/conformance/support/batch_builder.hpp"

namespace {

using namespace bp;
using namespace bp::conformance;
using Clock = std::chrono::steady_clock;

constexpr uint32_t kSteps = 21;

int fail(const std::string& wrong) {
  std::fprintf(stderr, "products: %s\n", wrong.c_str());
  return 2;
}

// A whole number from 1 on.
std::optional<uint32_t> size_of(std::string_view text) {
  uint32_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size() || n == 0) return std::nullopt;
  return n;
}

// Median seconds of a step of n_rows tokens.
double seconds_of(BackendSession& session, uint32_t n_rows, uint32_t width) {
  std::vector<double> seconds;
  for (uint32_t i = 0; i < kSteps + 3; ++i) {
    BatchBuilder builder;
    std::vector<int32_t> tokens(n_rows);
    for (uint32_t t = 0; t < n_rows; ++t) tokens[t] = static_cast<int32_t>(t % 16);
    builder.add_sequence(tokens, 0, {});
    builder.add_output(0, {n_rows - 1}, width);
    const bp_batch batch = builder.build(0);
    const auto begin = Clock::now();
    const Status status = session.run(batch);
    const std::chrono::duration<double> passed = Clock::now() - begin;
    if (!status.ok()) throw Failure(status.message());
    if (i >= 3) seconds.push_back(passed.count());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

void measure(Subject& subject, bp_dtype dtype, uint32_t n_in, uint32_t n_out, uint32_t megabytes,
             const std::vector<uint32_t>& rows) {
  const auto factory = subject.factory<bp_backend_factory>(BP_BACKEND_ID);
  const uint64_t n_bytes = row_bytes(dtype, uint64_t{n_in} * n_out);
  const auto n_products = static_cast<uint32_t>((uint64_t{megabytes} << 20) / n_bytes + 2);
  ProgramBuilder some, none;
  bench::build_products(n_in, n_out, n_products, dtype, some);
  bench::build_products(n_in, n_out, 0, dtype, none);
  auto options = make_growable<bp_compile_options>();
  options.max_context = options.max_step_tokens = *std::max_element(rows.begin(), rows.end());
  options.max_sequences = options.max_output_rows = 1;
  BackendSession with(factory, nullptr, &subject.params());
  BackendSession without(factory, nullptr, &subject.params());
  with.compile(some.build(), options, 0);
  without.compile(none.build(), options, 0);
  for (const uint32_t n : rows) {
    const double all = seconds_of(with, n, n_out) - seconds_of(without, n, n_in);
    const double one = all / n_products;
    std::printf("%s %u x %u rows %u: %.1f us, weights %.0f GB/s, %.1f TFLOPS\n",
                std::string(dtype_name(dtype)).c_str(), n_out, n_in, n, one * 1e6,
                static_cast<double>(n_bytes) * 1e-9 / one, 2e-12 * n_in * n_out * n / one);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return fail("PLUGIN.plugin.yaml DTYPE N_IN N_OUT ROWS... are needed");
  const auto dtype = dtype_from_name(argv[2]);
  if (!dtype) return fail("the dtype is unknown");
  const auto n_in = size_of(argv[3]), n_out = size_of(argv[4]);
  if (!n_in || !n_out) return fail("N_IN and N_OUT are numbers from 1 on");
  Options options;
  std::vector<uint32_t> rows;
  uint32_t megabytes = 400;
  for (int i = 5; i < argc; ++i) {
    const std::string text = argv[i];
    if (text == "--megabytes" && i + 1 < argc) {
      megabytes = size_of(argv[++i]).value_or(megabytes);
    } else if (text.find('=') != std::string::npos) {
      options.set.push_back(text);
    } else if (const auto n_rows = size_of(text)) {
      rows.push_back(*n_rows);
    } else {
      return fail("\"" + text + "\" is no number of rows");
    }
  }
  if (rows.empty()) return fail("no number of rows is given");
  auto subject = Subject::open(argv[1], options);
  if (!subject.ok()) return fail(subject.status().message());
  try {
    measure(**subject, *dtype, *n_in, *n_out, megabytes, rows);
  } catch (const std::exception& e) {
    return fail(e.what());
  }
  return 0;
}
