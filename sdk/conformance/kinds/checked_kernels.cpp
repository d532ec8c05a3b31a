#include "sdk/conformance/kinds/checked_kernels.hpp"

#include <bit>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "sdk/conformance/test.hpp"

namespace bp::conformance {

namespace {

constexpr uint32_t kUnwritten = 0x7fc0dead;  // a NaN that no arithmetic gives
constexpr uint64_t kGap = 5;                 // floats between rows
constexpr uint64_t kScratchGuard = 64;       // bytes behind the scratch
constexpr uint8_t kGuardByte = 0xa5;

// Memory of one part, aligned to 64, whose end is watched.
class GuardedScratch {
 public:
  explicit GuardedScratch(uint64_t n_bytes)
      : n_bytes_(n_bytes), memory_(n_bytes + 2 * kScratchGuard, kGuardByte) {}
  [[nodiscard]] uint8_t* data() {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    return memory_.data() + (kScratchGuard - address % kScratchGuard) % kScratchGuard;
  }
  [[nodiscard]] bool is_intact() {
    for (uint64_t i = 0; i < kScratchGuard; ++i) {
      if (data()[n_bytes_ + i] != kGuardByte) return false;
    }
    return true;
  }

 private:
  uint64_t n_bytes_;
  std::vector<uint8_t> memory_;
};

std::string place_of(uint64_t row, uint64_t column, uint32_t n_parts) {
  return "row " + std::to_string(row) + ", column " + std::to_string(column) + ", in " +
         std::to_string(n_parts) + " parts";
}

}  // namespace

class CheckedKernel final : public Kernel {
 public:
  CheckedKernel(CheckedKernels& owner, const bp_kernel_place& place, bp_kernel* kernel)
      : owner_(owner), n_in_(place.n_in), n_out_(place.n_out), kernel_(kernel) {}
  ~CheckedKernel() override { owner_.table_.release(kernel_); }

  Status run(const bp_kernel_call& call, uint32_t part, uint32_t) const override {
    if (part != 0) return {};
    for (const uint32_t n_parts : {17u, 3u, 1u}) BP_TRY(run_in(n_parts, call));
    return {};
  }

 private:
  Status run_in(uint32_t n_parts, const bp_kernel_call& call) const {
    const uint64_t x_stride = n_in_ + kGap, y_stride = n_out_ + kGap;
    // What lies between rows is no part of any, and no number.
    std::vector<float> x(call.n_rows * x_stride, std::numeric_limits<float>::quiet_NaN());
    std::vector<float> y(call.n_rows * y_stride, std::bit_cast<float>(kUnwritten));
    for (uint64_t r = 0; r < call.n_rows; ++r) {
      std::memcpy(&x[r * x_stride], call.x + r * call.x_stride, n_in_ * sizeof(float));
    }
    const std::vector<float> given = x;
    auto mine = make_growable<bp_kernel_call>();
    mine.n_rows = call.n_rows;
    mine.x = x.data();
    mine.x_stride = x_stride;
    mine.y = y.data();
    mine.y_stride = y_stride;
    BP_TRY(run_parts(n_parts, mine));
    if (std::memcmp(x.data(), given.data(), x.size() * sizeof(float)) != 0) {
      return internal_error("run wrote to x");
    }
    for (uint64_t r = 0; r < call.n_rows; ++r) {
      BP_TRY(check_row(&y[r * y_stride], r, n_parts));
      std::memcpy(call.y + r * call.y_stride, &y[r * y_stride], n_out_ * sizeof(float));
    }
    ++owner_.n_calls_;
    return {};
  }

  Status run_parts(uint32_t n_parts, const bp_kernel_call& call) const {
    const auto& table = owner_.table_;
    const uint64_t n_bytes =
        table.scratch_bytes == nullptr ? 0 : table.scratch_bytes(kernel_, call.n_rows);
    std::vector<GuardedScratch> scratch(n_parts, GuardedScratch(n_bytes));
    std::vector<Status> results(n_parts);
    std::vector<std::thread> threads;
    for (uint32_t part = 0; part < n_parts; ++part) {
      threads.emplace_back([&, part] {
        bp_kernel_call own = call;
        own.scratch = n_bytes == 0 ? nullptr : scratch[part].data();
        bp_error error{};
        results[part] = from_c(table.run(kernel_, &own, part, n_parts, &error), error);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (uint32_t part = 0; part < n_parts; ++part) {
      BP_TRY(results[part]);
      if (!scratch[part].is_intact()) return internal_error("run wrote behind its scratch");
    }
    return {};
  }

  Status check_row(const float* y, uint64_t row, uint32_t n_parts) const {
    for (uint64_t i = 0; i < n_out_ + kGap; ++i) {
      const bool is_unwritten = std::bit_cast<uint32_t>(y[i]) == kUnwritten;
      if (i < n_out_ && is_unwritten) {
        return internal_error("run did not write " + place_of(row, i, n_parts));
      }
      if (i >= n_out_ && !is_unwritten) {
        return internal_error("run wrote between two rows of y, behind " +
                              place_of(row, n_out_ - 1, n_parts));
      }
    }
    return {};
  }

  CheckedKernels& owner_;
  uint64_t n_in_, n_out_;
  bp_kernel* kernel_;
};

CheckedKernels::CheckedKernels(Subject& subject, std::string op)
    : op_(std::move(op)),
      plugin_(subject.manifest().id),
      host_(make_growable<bp_host>()),
      table_(subject.factory<bp_op_kernels_factory>(BP_OP_KERNELS_ID)) {
  const bool complete = table_.create != nullptr && table_.destroy != nullptr &&
                        table_.accepts != nullptr && table_.prepare != nullptr &&
                        table_.release != nullptr && table_.run != nullptr;
  require(complete,
          "a required function of bp_op_kernels_factory (create, destroy, accepts, "
          "prepare, release, run) is NULL");
  bp_error error{};
  const bp_status status = table_.create(&host_, op_.c_str(), &subject.params(), &set_, &error);
  if (status == BP_UNSUPPORTED) {
    require(error.message[0] != 0, "create refuses the op " + op_ + " without a sentence");
    throw Skip("the plugin has no kernels for " + op_ + ": " + error.message);
  }
  require(status == BP_OK, "create for the op " + op_ + ": " + from_c(status, error).message());
  require(set_ != nullptr, "create succeeded without a set of kernels");
}

CheckedKernels::~CheckedKernels() {
  if (set_ != nullptr) table_.destroy(set_);
}

Result<std::unique_ptr<KernelSet>> CheckedKernels::create(const Host&, std::string_view,
                                                          const Params&) {
  return unsupported("made by the tool alone");
}

bool CheckedKernels::accepts(const KernelPlace& place) const {
  const int32_t answer = table_.accepts(set_, &place.c());
  if (answer != 0 && answer != 1) complaint_ = "accepts answered " + std::to_string(answer);
  if (table_.accepts(set_, &place.c()) != answer) {
    complaint_ = "accepts changed its mind about one place";
  }
  return answer == 1;
}

Result<std::unique_ptr<Kernel>> CheckedKernels::prepare(const KernelPlace& place) {
  bp_kernel* kernel = nullptr;
  bp_error error{};
  const bp_status status = table_.prepare(set_, &place.c(), &kernel, &error);
  if (status != BP_OK) return from_c(status, error).with_context("prepare");
  if (kernel == nullptr) return internal_error("prepare succeeded without a kernel");
  ++n_places_;
  return std::unique_ptr<Kernel>(new CheckedKernel(*this, place.c(), kernel));
}

bp_override CheckedKernels::entry() {
  static constexpr bp_op_kernels_factory kFactory = op_kernels_factory<CheckedKernels>();
  auto made = make_growable<bp_override>();
  made.op = op_.c_str();
  made.plugin = plugin_.c_str();
  made.factory = &kFactory;
  made.set = reinterpret_cast<bp_kernel_set*>(static_cast<KernelSet*>(this));
  return made;
}

}  // namespace bp::conformance
