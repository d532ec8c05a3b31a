// "bp.device-sampling/1": tokens chosen by the backend. The program looks rows of logits up in a
// table, so that a test has any row that it wants.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <tuple>

#include "backplane/row_sampling.hpp"
#include "sdk/conformance/levels/steps.hpp"
#include "sdk/conformance/subject.hpp"
#include "sdk/conformance/support/backend_session.hpp"
#include "sdk/conformance/support/batch_builder.hpp"
#include "sdk/conformance/support/device_sampling.hpp"
#include "sdk/conformance/support/program_builder.hpp"

namespace bp::conformance {

namespace {

using Floats = std::vector<float>;
using Requests = std::vector<bp_row_request>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kUntouched = -7.0f;
constexpr double kUniformSlack = 1e-4;  // convention 5

struct NamedRow {
  std::string name;
  Floats logits;
};

Floats filled(uint32_t width, const std::function<float(uint32_t)>& value) {
  Floats row(width);
  for (uint32_t i = 0; i < width; ++i) row[i] = value(i);
  return row;
}

std::vector<NamedRow> rows_of(uint32_t width) {
  std::mt19937 engine(width);
  std::normal_distribution<float> normal(0, 3);
  const auto random = [&](uint32_t) { return normal(engine); };
  std::vector<NamedRow> rows = {
      {"random", filled(width, random)},
      {"with ties", filled(width, [&](uint32_t i) { return std::round(random(i)); })},
      {"all equal", filled(width, [](uint32_t) { return 0.25f; })},
      {"all -inf", filled(width, [](uint32_t) { return -kInfinity; })},
      {"mostly -inf",
       filled(width, [&](uint32_t i) { return i % (width / 3) == 1 ? random(i) : -kInfinity; })},
      {"far below 0", filled(width, [&](uint32_t i) { return random(i) - 3000; })},
      {"of both zeros", filled(width, [](uint32_t i) { return i % 2 == 0 ? -0.0f : 0.0f; })},
      {"peaked", filled(width, [&](uint32_t i) { return i == width - 2 ? 60.0f : random(i); })},
      {"descending", filled(width, [](uint32_t i) { return -0.01f * static_cast<float>(i); })},
      {"ascending", filled(width, [](uint32_t i) { return 0.01f * static_cast<float>(i); })},
      {"with NaN", filled(width, random)},
      {"with +inf", filled(width, random)},
  };
  rows[10].logits[width / 2] = std::numeric_limits<float>::quiet_NaN();
  rows[11].logits[width - 1] = kInfinity;
  return rows;
}

// Of as many tokens as there are rows; program output 0 has the row of each token, 1 those asked
// for.
class SamplingSession {
 public:
  SamplingSession(Subject& subject, uint32_t width)
      : rows_(rows_of(width)),
        factory_(subject.factory<bp_backend_factory>(BP_BACKEND_ID)),
        session_(factory_, nullptr, &subject.params()) {
    const auto offered = offered_sampling(factory_, session_.backend());
    if (!offered) throw Skip("the backend does not offer " BP_DEVICE_SAMPLING_ID);
    max_candidates_ = offered->max_candidates;
    require(max_candidates_ >= 64, "bp_device_sampling.max_candidates is " +
                                       std::to_string(max_candidates_) + ", must be at least 64");
    compile(width);
  }

  [[nodiscard]] uint32_t max_candidates() const { return max_candidates_; }
  [[nodiscard]] const std::vector<NamedRow>& rows() const { return rows_; }
  [[nodiscard]] uint32_t n_rows() const { return static_cast<uint32_t>(rows_.size()); }

  struct Answer {
    Status status;
    std::vector<bp_row_result> results;
    std::vector<std::vector<bp_candidate>> candidates;
    Floats data;  // [n_rows, width]
  };
  // A step of all rows as one sequence, or as two of which the second is stopped.
  Answer run(uint32_t output, Requests requests, bool stops_second = false) {
    Answer answer;
    answer.results.assign(n_rows(), kUnwritten);
    answer.data.assign(n_rows() * rows_[0].logits.size(), kUntouched);
    for (bp_row_request& request : requests) {
      answer.candidates.emplace_back(request.n_candidates, bp_candidate{-5, kUntouched});
      if (request.n_candidates > 0) request.candidates = answer.candidates.back().data();
    }
    std::vector<int32_t> tokens(n_rows());
    std::iota(tokens.begin(), tokens.end(), 0);
    std::vector<uint32_t> asked(n_rows());
    std::iota(asked.begin(), asked.end(), 0u);
    BatchBuilder builder;
    const auto n_first = static_cast<std::ptrdiff_t>(stops_second ? n_rows() / 2 : n_rows());
    builder.add_sequence({tokens.begin(), tokens.begin() + n_first}, 0);
    if (stops_second) {
      builder.add_sequence({tokens.begin() + n_first, tokens.end()}, 0);
      builder.set_stop({0, 1});
    }
    bp_batch batch = builder.build(0);
    auto sampling = make_growable<bp_sampling>();
    sampling.requests = requests.data();
    sampling.results = answer.results.data();
    auto given = make_growable<bp_output>();
    given.output = output;
    given.required = BP_OUTPUT_SAMPLING;
    given.n_rows = n_rows();
    given.dtype = BP_DTYPE_F32;
    given.rows = asked.data();
    given.data = answer.data.data();
    given.row_stride_bytes = rows_[0].logits.size() * sizeof(float);
    given.sampling = &sampling;
    const bp_output* outputs[] = {&given};
    batch.outputs = outputs;
    batch.n_outputs = 1;
    answer.status = session_.run(batch);
    return answer;
  }
  Answer run_well(uint32_t output, const Requests& requests, bool stops_second = false) {
    Answer answer = run(output, requests, stops_second);
    require(answer.status.ok(), "a step that samples failed: " + answer.status.message());
    return answer;
  }

  static constexpr bp_row_result kUnwritten{-99, kUntouched, kUntouched, 99, -99, 99, 0};

 private:
  void compile(uint32_t width) {
    Floats table;
    for (const NamedRow& row : rows_)
      table.insert(table.end(), row.logits.begin(), row.logits.end());
    const uint32_t logits = builder_.add_table_rows(width, table);
    builder_.add_output(logits);
    builder_.add_selected_output(logits);
    const auto obstacles = session_.obstacles(builder_.build());
    if (!obstacles.empty()) throw Skip(obstacles.front().second);
    bp_compile_options options = BackendSession::default_options();
    options.max_step_tokens = options.max_output_rows = n_rows();
    options.max_sequences = 2;
    session_.compile(builder_.build(), options, 4);
  }

  std::vector<NamedRow> rows_;
  ProgramBuilder builder_;
  bp_backend_factory factory_;
  BackendSession session_;
  uint32_t max_candidates_ = 0;
};

// f(session, output, where) for rows of one slice or many, and for both kinds of outputs.
void for_sessions(Subject& subject,
                  const std::function<void(SamplingSession&, uint32_t, const std::string&)>& f) {
  for (const uint32_t width : {7u, 300u, 20011u}) {
    SamplingSession session(subject, width);
    for (const uint32_t output : {0u, 1u}) {
      f(session, output, " of " + std::to_string(width) + " logits");
    }
  }
}

std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", x);
  return text;
}

void expect_equal(const std::string& what, const char* field, double expected, double found,
                  double slack = 0) {
  const bool equal = expected == found || std::abs(expected - found) <= slack;
  require(equal, what + ": " + field + " is " + number(found) + ", expected " + number(expected));
}

// But for the token of a draw.
void expect_result(const std::string& what, const bp_row_result& expected,
                   const bp_row_result& found) {
  expect_equal(what, "flags", expected.flags, found.flags);
  if (expected.flags != 0) return;
  expect_equal(what, "log_sum", expected.log_sum, found.log_sum,
               1e-5 + 1e-6 * std::abs(expected.log_sum));
  expect_equal(what, "given_logit", expected.given_logit, found.given_logit);
  expect_equal(what, "n_candidates", expected.n_candidates, found.n_candidates);
}

void expect_chosen(const std::string& what, const Floats& row, const bp_row_result& expected,
                   const bp_row_result& found) {
  if (expected.flags != 0) return;
  expect_equal(what, "token", expected.token, found.token);
  expect_equal(what, "token_logit",
               expected.token < 0 ? -kInfinity : row[static_cast<size_t>(expected.token)],
               found.token_logit);
}

// The share of the draw's weight before and with a token, if that can be drawn.
std::optional<std::pair<double, double>> share_of(const Floats& row, const bp_row_request& request,
                                                  int32_t token) {
  const float greatest = *std::max_element(row.begin(), row.end());
  double total = 0, before = 0, with = 0;
  bool is_drawable = false;
  for (const WeightedCandidate& kept : drawable(row, greatest, request)) {
    if (kept.candidate.id == token && kept.weight > 0) {
      is_drawable = true;
      before = total;
      with = total + kept.weight;
    }
    total += kept.weight;
  }
  if (!is_drawable) return std::nullopt;
  return std::pair(before / total, with / total);
}

void expect_drawn(const std::string& what, const Floats& row, const bp_row_request& request,
                  const bp_row_result& expected, const bp_row_result& found) {
  if (expected.flags != 0 || found.token == expected.token) {
    return expect_chosen(what, row, expected, found);
  }
  const auto share = share_of(row, request, found.token);
  const std::string wrong = what + ": token is " + std::to_string(found.token) + ", expected " +
                            std::to_string(expected.token);
  require(share.has_value(), wrong);
  const auto [before, with] = *share;
  require(request.uniform > before - kUniformSlack && request.uniform < with + kUniformSlack,
          wrong + "; it is drawn between " + number(before) + " and " + number(with));
  expect_equal(what, "token_logit", row[static_cast<size_t>(found.token)], found.token_logit);
}

void chooses_the_best(Subject& subject) {
  for_sessions(subject, [](SamplingSession& session, uint32_t output, const std::string& where) {
    const bp_row_request request = best_request();
    const auto answer = session.run_well(output, Requests(session.n_rows(), request));
    for (uint32_t r = 0; r < session.n_rows(); ++r) {
      const NamedRow& row = session.rows()[r];
      const bp_row_result expected = sample_row(row.logits, request);
      const std::string what = "the best of a row " + row.name + where;
      expect_result(what, expected, answer.results[r]);
      expect_chosen(what, row.logits, expected, answer.results[r]);
    }
  });
}

void sums_whole_rows(Subject& subject) {
  for_sessions(subject, [](SamplingSession& session, uint32_t output, const std::string& where) {
    const auto width = static_cast<int32_t>(session.rows()[0].logits.size());
    for (const int32_t token : {0, width / 2, width - 1}) {
      // A draw from few candidates: the sum is that of all.
      bp_row_request request = draw_request(2, -1, 3, 0.5);
      request.token = token;
      const auto answer = session.run_well(output, Requests(session.n_rows(), request));
      for (uint32_t r = 0; r < session.n_rows(); ++r) {
        const NamedRow& row = session.rows()[r];
        expect_result("token " + std::to_string(token) + " in a row " + row.name + where,
                      sample_row(row.logits, request), answer.results[r]);
      }
    }
  });
}

void gives_the_best_candidates(Subject& subject) {
  for_sessions(subject, [](SamplingSession& session, uint32_t output, const std::string& where) {
    for (const uint32_t k : {1u, 5u, 64u, session.max_candidates()}) {
      bp_row_request request = plain_request();
      request.n_candidates = k;
      const auto answer = session.run_well(output, Requests(session.n_rows(), request));
      for (uint32_t r = 0; r < session.n_rows(); ++r) {
        const NamedRow& row = session.rows()[r];
        std::vector<bp_candidate> best(k);
        bp_row_request own = request;
        own.candidates = best.data();
        const bp_row_result expected = sample_row(row.logits, own);
        const std::string what = "the " + std::to_string(k) + " best of a row " + row.name + where;
        expect_result(what, expected, answer.results[r]);
        for (uint32_t i = 0; i < expected.n_candidates; ++i) {
          const std::string place = what + ", candidate " + std::to_string(i);
          expect_equal(place, "id", best[i].id, answer.candidates[r][i].id);
          expect_equal(place, "logit", best[i].logit, answer.candidates[r][i].logit);
        }
      }
    }
  });
}

void draws_by_the_uniform(Subject& subject) {
  for_sessions(subject, [](SamplingSession& session, uint32_t output, const std::string& where) {
    for (const auto& [top_k, floor, scale] :
         {std::tuple{0u, -kInfinity, 1.0f},
          {0u, -2.5f, 0.5f},
          {40u, -kInfinity, 1.5f},
          {session.max_candidates(), -3.0f, 0.7f},
          {1u, 0.0f, 1.0f},
          {0u, 0.0f, 4.0f},
          {0u, -kInfinity, std::numeric_limits<float>::max()}}) {
      for (const double uniform : {0.0, 0.1234, 0.5, 0.77, 0.999, 1 - 0x1p-53}) {
        bp_row_request request = draw_request(top_k, floor, scale, uniform);
        const auto answer = session.run_well(output, Requests(session.n_rows(), request));
        for (uint32_t r = 0; r < session.n_rows(); ++r) {
          const NamedRow& row = session.rows()[r];
          const bp_row_result expected = sample_row(row.logits, request);
          const std::string what = "a draw by " + number(uniform) + " with top_k " +
                                   std::to_string(top_k) + ", floor " + number(floor) + ", scale " +
                                   number(scale) + " from a row " + row.name + where;
          expect_result(what, expected, answer.results[r]);
          expect_drawn(what, row.logits, request, expected, answer.results[r]);
        }
      }
    }
  });
}

bool is_unwritten(const bp_row_result& result) {
  return result.token == SamplingSession::kUnwritten.token &&
         result.n_candidates == SamplingSession::kUnwritten.n_candidates &&
         result.flags == SamplingSession::kUnwritten.flags;
}

// The same bits, but for a NaN: which one it is, devices may choose.
bool is_same_number(float a, float b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b));
}

// Each row its own request; the second sequence is stopped.
void writes_what_is_asked(Subject& subject) {
  for_sessions(subject, [](SamplingSession& session, uint32_t output, const std::string& where) {
    Requests requests;
    for (uint32_t r = 0; r < session.n_rows(); ++r) {
      bp_row_request request = draw_request(r % 4 == 1 ? 5 : 0, -kInfinity, 1, 0.3);
      if (r % 4 == 0) request.choice = BP_CHOOSE_BEST;
      if (r % 3 != 0) request.flags = BP_ROW_LOGITS;
      request.n_candidates = r % 3;
      requests.push_back(request);
    }
    for (const bool stops_second : {false, true}) {
      const auto answer = session.run_well(output, requests, stops_second);
      for (uint32_t r = 0; r < session.n_rows(); ++r) {
        const NamedRow& row = session.rows()[r];
        const std::string what = "row " + std::to_string(r) + where;
        const bool runs = !stops_second || r < session.n_rows() / 2;
        const Floats logits(
            answer.data.begin() + static_cast<std::ptrdiff_t>(r * row.logits.size()),
            answer.data.begin() + static_cast<std::ptrdiff_t>((r + 1) * row.logits.size()));
        const bool is_given = runs && (requests[r].flags & BP_ROW_LOGITS) != 0;
        const bool is_right =
            is_given ? std::equal(logits.begin(), logits.end(), row.logits.begin(), is_same_number)
                     : std::all_of(logits.begin(), logits.end(),
                                   [](float x) { return x == kUntouched; });
        require(is_right, what + (is_given ? ": its logits are wrong"
                                           : ": logits were written that nobody asked for"));
        if (!runs) {
          require(is_unwritten(answer.results[r]),
                  what + ": a result was written, though its sequence was stopped");
          continue;
        }
        std::vector<bp_candidate> room(requests[r].n_candidates);
        bp_row_request own = requests[r];
        own.candidates = room.data();
        const bp_row_result expected = sample_row(row.logits, own);
        expect_result(what, expected, answer.results[r]);
        expect_drawn(what, row.logits, own, expected, answer.results[r]);
      }
    }
  });
}

void refuses_impossible_requests(Subject& subject) {
  SamplingSession session(subject, 300);
  const auto refused = [&](const char* what, const std::function<void(bp_row_request&)>& change) {
    Requests requests(session.n_rows(), draw_request(0, -1, 1, 0.5));
    change(requests[1]);
    const auto answer = session.run(1, requests);
    require(answer.status.code() == Code::kInvalidArgument ||
                answer.status.code() == Code::kUnsupported,
            std::string("a request with ") + what + " must be refused, it gave code " +
                std::to_string(static_cast<int>(answer.status.code())));
    require(is_unwritten(answer.results[0]),
            std::string("a request with ") + what + ": the step failed but wrote a result");
  };
  const uint32_t beyond = session.max_candidates() + 1;
  refused("more than max_candidates", [&](bp_row_request& r) { r.n_candidates = beyond; });
  refused("a top_k of more than max_candidates", [&](bp_row_request& r) { r.top_k = beyond; });
  refused("a token beyond the row", [](bp_row_request& r) { r.token = 300; });
  refused("an unknown flag", [](bp_row_request& r) { r.flags = 1u << 31; });
  refused("an unknown choice", [](bp_row_request& r) { r.choice = 17; });
  refused("a uniform of 1", [](bp_row_request& r) { r.uniform = 1; });
  refused("a scale of 0", [](bp_row_request& r) { r.scale = 0; });
  refused("a floor above 0", [](bp_row_request& r) { r.floor = 0.5f; });
}

}  // namespace

void add_sampling_steps_tests(Tests& tests) {
  const Test listed[] = {
      {"steps-sampling-best", "steps",
       "the backend's own choice is the lowest id among the greatest logits", chooses_the_best},
      {"steps-sampling-log-sum", "steps",
       "log_sum is of the whole row, and the given token's logit is the row's", sums_whole_rows},
      {"steps-sampling-candidates", "steps", "the best candidates come in order, with their logits",
       gives_the_best_candidates},
      {"steps-sampling-draws", "steps", "draws are where the host's uniform number says",
       draws_by_the_uniform},
      {"steps-sampling-rows", "steps",
       "each row's request is its own, and only logits asked for are written",
       writes_what_is_asked},
      {"steps-sampling-limits", "steps", "requests that cannot be are refused",
       refuses_impossible_requests},
  };
  tests.insert(tests.end(), std::begin(listed), std::end(listed));
}

}  // namespace bp::conformance
