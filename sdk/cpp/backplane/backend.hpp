#pragma once
// Backends in C++: derive from Backend and Executable, then
//   constexpr bp_backend_factory kFactory = bp::backend_factory<MyBackend>();
//   BP_PLUGIN("mine", "1.0.0", {BP_BACKEND_ID, &kFactory});
// MyBackend needs a static function
//   Result<std::unique_ptr<Backend>> create(const Host&, const Params&).

#include <memory>
#include <span>
#include <string>

#include "backplane/backend.h"
#include "backplane/ext/device_sampling.h"
#include "backplane/ext/kv_transfer.h"
#include "backplane/plugin.hpp"

namespace bp {

namespace detail {
template <class B>
struct BackendAdapter;
}

// Collects the obstacles that check finds.
class CheckReport {
 public:
  explicit CheckReport(const bp_check_report* report) : report_(report) {}
  void obstacle(uint32_t op, const std::string& sentence) {
    ++n_obstacles_;
    if (report_ != nullptr) report_->obstacle(report_->user, op, to_bp_str(sentence));
  }
  [[nodiscard]] uint32_t n_obstacles() const { return n_obstacles_; }

 private:
  const bp_check_report* report_;
  uint32_t n_obstacles_ = 0;
};

// Reports progress and answers whether to stop; a null one never stops.
class Progress {
 public:
  explicit Progress(const bp_progress* progress) : progress_(progress) {}
  [[nodiscard]] bool report(uint64_t done, uint64_t total) const {
    return progress_ != nullptr && progress_->report(progress_->user, done, total) != 0;
  }

 private:
  const bp_progress* progress_;
};

class Executable {
 public:
  virtual ~Executable() = default;
  virtual Status memory(bp_memory_info& out) = 0;
  virtual Status kv_allocate(std::span<const uint32_t> n_blocks) = 0;
  virtual Status warm_up(const Progress&) { return {}; }
  virtual Status submit(const bp_batch& batch, uint64_t& ticket) = 0;
  virtual Status collect(uint64_t ticket) = 0;

  // "bp.kv-transfer/1", asked for where the backend's transfers_kv() is true; see kv_images.hpp.
  virtual Status prepare_transfer(bp_kv_image_info&) { return no_transfer(); }
  virtual Status export_blocks(uint32_t, std::span<const int32_t>, std::span<uint8_t>) {
    return no_transfer();
  }
  virtual Status import_blocks(uint32_t, std::span<const int32_t>, std::span<const uint8_t>) {
    return no_transfer();
  }

 private:
  static Status no_transfer() { return unsupported("this executable moves no KV blocks"); }
};

class Backend {
 public:
  virtual ~Backend() = default;
  // Bits of bp_compile_options.required (BP_COMPILE_*) that compile honours; others are refused.
  [[nodiscard]] virtual uint64_t compile_features() const { return 0; }
  virtual void check(const bp_program& program, CheckReport& report) = 0;
  virtual Result<std::unique_ptr<Executable>> compile(const bp_program& program,
                                                      const bp_compile_options& options) = 0;
  // Whether executables move KV blocks; then "bp.kv-transfer/1" is offered without get_extension.
  [[nodiscard]] virtual bool transfers_kv() const { return false; }
  // The candidates of a row that "bp.device-sampling/1" offers; 0: it is not offered. Executables
  // then honour BP_OUTPUT_SAMPLING.
  [[nodiscard]] virtual uint32_t max_candidates() const { return 0; }
  // Whether ids of -1-r are taken, by its convention 7.
  [[nodiscard]] virtual bool takes_chosen() const { return false; }
  // All others. What is returned lives as long as the backend.
  virtual const void* get_extension(std::string_view) { return nullptr; }

 private:
  template <class B>
  friend struct detail::BackendAdapter;
  bp_device_sampling sampling_{};
};

namespace detail {

template <class B>
struct BackendAdapter {
  static Backend* cpp(bp_backend* b) { return reinterpret_cast<Backend*>(b); }
  static Executable* cpp(bp_executable* e) { return reinterpret_cast<Executable*>(e); }

  static bp_status create(const bp_host* host, const bp_params* config, bp_backend** out,
                          bp_error* error) {
    return guarded(error, [&]() -> Status {
      BP_ASSIGN(std::unique_ptr<Backend> made, B::create(Host(host), Params(config)));
      made->sampling_ = make_growable<bp_device_sampling>();
      made->sampling_.max_candidates = made->max_candidates();
      made->sampling_.takes_chosen = made->takes_chosen() ? 1 : 0;
      *out = reinterpret_cast<bp_backend*>(made.release());
      return {};
    });
  }
  static void destroy(bp_backend* backend) { delete cpp(backend); }

  static bp_status check(bp_backend* backend, const bp_program* program,
                         const bp_check_report* report, bp_error* error) {
    return guarded(error, [&]() -> Status {
      CheckReport collected(report);
      cpp(backend)->check(*program, collected);
      if (collected.n_obstacles() == 0) return {};
      return unsupported(std::to_string(collected.n_obstacles()) + " obstacles were reported");
    });
  }
  static bp_status compile(bp_backend* backend, const bp_program* program,
                           const bp_compile_options* options, bp_executable** out,
                           bp_error* error) {
    return guarded(error, [&]() -> Status {
      const bp_compile_options mine = copy_growable(options);
      BP_TRY(refuse_unknown(mine.required & ~cpp(backend)->compile_features()));
      BP_ASSIGN(std::unique_ptr<Executable> made, cpp(backend)->compile(*program, mine));
      *out = reinterpret_cast<bp_executable*>(made.release());
      return {};
    });
  }
  static Status refuse_unknown(uint64_t features) {
    if (features == 0) return {};
    if ((features & BP_COMPILE_OVERRIDES) == 0) {
      return unsupported("compile options require an unknown feature");
    }
    return unsupported("this backend runs no kernels of other plugins, so it takes no override");
  }
  static void destroy_executable(bp_executable* executable) { delete cpp(executable); }

  static bp_status memory(bp_executable* executable, bp_memory_info* out, bp_error* error) {
    return guarded(error, [&]() -> Status {
      auto info = make_growable<bp_memory_info>();
      BP_TRY(cpp(executable)->memory(info));
      fill_growable(out, info);
      return {};
    });
  }
  static bp_status kv_allocate(bp_executable* executable, const uint32_t* n_blocks,
                               uint32_t n_groups, bp_error* error) {
    return guarded(error, [&] { return cpp(executable)->kv_allocate({n_blocks, n_groups}); });
  }
  static bp_status warm_up(bp_executable* executable, const bp_progress* progress,
                           bp_error* error) {
    return guarded(error, [&] { return cpp(executable)->warm_up(Progress(progress)); });
  }
  static bp_status submit(bp_executable* executable, const bp_batch* batch, uint64_t* ticket,
                          bp_error* error) {
    return guarded(error, [&]() -> Status {
      const bp_batch mine = copy_growable(batch);
      if (mine.required != 0) return unsupported("the batch requires an unknown feature");
      return cpp(executable)->submit(mine, *ticket);
    });
  }
  static bp_status collect(bp_executable* executable, uint64_t ticket, bp_error* error) {
    return guarded(error, [&] { return cpp(executable)->collect(ticket); });
  }
  static const void* get_extension(bp_backend* backend, const char* id) {
    static constexpr bp_kv_transfer kKvTransfer = {sizeof(bp_kv_transfer), 0, prepare_transfer,
                                                   export_blocks, import_blocks};
    if (id == nullptr) return nullptr;
    const bool is_transfer = std::string_view(id) == BP_KV_TRANSFER_ID;
    if (is_transfer && cpp(backend)->transfers_kv()) return &kKvTransfer;
    if (std::string_view(id) != BP_DEVICE_SAMPLING_ID) return cpp(backend)->get_extension(id);
    return cpp(backend)->sampling_.max_candidates == 0 ? nullptr : &cpp(backend)->sampling_;
  }

  static bp_status prepare_transfer(bp_executable* executable, bp_kv_image_info* out,
                                    bp_error* error) {
    return guarded(error, [&]() -> Status {
      auto info = make_growable<bp_kv_image_info>();
      BP_TRY(cpp(executable)->prepare_transfer(info));
      fill_growable(out, info);
      return {};
    });
  }
  static bp_status export_blocks(bp_executable* executable, uint32_t group, const int32_t* blocks,
                                 uint32_t n_blocks, void* images, uint64_t images_bytes,
                                 bp_error* error) {
    return guarded(error, [&] {
      return cpp(executable)
          ->export_blocks(group, {blocks, n_blocks}, {static_cast<uint8_t*>(images), images_bytes});
    });
  }
  static bp_status import_blocks(bp_executable* executable, uint32_t group, const int32_t* blocks,
                                 uint32_t n_blocks, const void* images, uint64_t images_bytes,
                                 bp_error* error) {
    return guarded(error, [&] {
      return cpp(executable)
          ->import_blocks(group, {blocks, n_blocks},
                          {static_cast<const uint8_t*>(images), images_bytes});
    });
  }
};

}  // namespace detail

template <class B>
[[nodiscard]] constexpr bp_backend_factory backend_factory() {
  using A = detail::BackendAdapter<B>;
  return {sizeof(bp_backend_factory),
          0,
          A::create,
          A::destroy,
          A::check,
          A::compile,
          A::destroy_executable,
          A::memory,
          A::kv_allocate,
          A::warm_up,
          A::submit,
          A::collect,
          A::get_extension};
}

}  // namespace bp
