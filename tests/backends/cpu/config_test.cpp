// The plugin's configuration, and what it refuses to compile.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/cpu/cpu_features.hpp"
#include "backplane/dtype.hpp"
#include "sdk/conformance/support/backend_session.hpp"
#include "sdk/conformance/support/tiny_llama.hpp"
#include "tests/backends/cpu/isa_backends.hpp"

namespace bp::test {
namespace {

using namespace conformance;

constexpr bp_backend_factory kFactory = backend_factory<cpu::CpuBackend>();

Status create_with(const char* key, const char* value) {
  bp_param param{};
  param.key = to_bp_str(key);
  param.type = BP_TYPE_STRING;
  param.s = to_bp_str(value);
  auto params = make_growable<bp_params>();
  params.n_params = 1;
  params.params = &param;
  const auto host = make_growable<bp_host>();
  bp_backend* backend = nullptr;
  bp_error error{};
  const bp_status status = kFactory.create(&host, &params, &backend, &error);
  if (status == BP_OK) kFactory.destroy(backend);
  return from_c(status, error);
}

TEST(CpuConfig, TakesTheIsasThatRunHere) {
  for (const cpu::Isa isa : cpu::available_isas()) {
    EXPECT_TRUE(create_with("isa", cpu::isa_name(isa).data()).ok());
  }
  EXPECT_TRUE(create_with("isa", "auto").ok());
  const bool has_avx512 = cpu::available_isas().back() >= cpu::Isa::kAvx512;
  EXPECT_EQ(create_with("isa", "avx512").code(), has_avx512 ? Code::kOk : Code::kUnsupported);
}

TEST(CpuConfig, RefusesUnknownValues) {
  const Status isa = create_with("isa", "sse9");
  EXPECT_EQ(isa.code(), Code::kInvalidArgument);
  EXPECT_THAT(isa.message(), testing::HasSubstr("sse9"));
  const Status prepare = create_with("prepare", "twice");
  EXPECT_EQ(prepare.code(), Code::kInvalidArgument);
  EXPECT_THAT(prepare.message(), testing::HasSubstr("twice"));
}

TEST(CpuCheck, AcceptsALlamaAndNamesWhatItCannotCompile) {
  TinyLlama llama;
  BackendSession session(kFactory);
  EXPECT_TRUE(session.obstacles(llama.program()).empty());
  llama.builder().op(3).version = 9;
  const auto found = session.obstacles(llama.program());
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].first, 3u);
  EXPECT_THAT(found[0].second, testing::HasSubstr("version"));
}

TEST(CpuCompile, RefusesKvTypesItDoesNotKeep) {
  TinyLlama llama;
  BackendSession session(kFactory);
  bp_compile_options options = BackendSession::default_options();
  for (const bp_dtype dtype : {BP_DTYPE_Q5_0, BP_DTYPE_F8_E4M3}) {
    options.k_dtype = dtype;
    const Status status = session.try_compile(llama.program(), options);
    EXPECT_EQ(status.code(), Code::kUnsupported);
    const std::string name(dtype_name(dtype));
    EXPECT_THAT(status.message(),
                testing::HasSubstr("k_dtype is " + name +
                                   "; the cpu backend keeps f32, f16, bf16, q8_0 and q4_0"));
  }
}

TEST(CpuCompile, StopsWhenProgressAsksForIt) {
  TinyLlama llama;
  BackendSession session(kFactory);
  auto progress = make_growable<bp_progress>();
  progress.report = [](void*, uint64_t done, uint64_t) { return done >= 5 ? 1 : 0; };
  bp_compile_options options = BackendSession::default_options();
  options.progress = &progress;
  EXPECT_EQ(session.try_compile(llama.program(), options).code(), Code::kCancelled);
}

TEST(CpuCompile, AnswersWithItsOwnBlockSizeWhereItCannotTakeTheProposed) {
  TinyLlama llama;
  for (const auto& [proposed, expected] :
       {std::pair{0u, 64u}, {32u, 32u}, {128u, 128u}, {16u, 64u}, {1u << 20, 64u}}) {
    BackendSession session(kFactory);
    bp_compile_options options = BackendSession::default_options();
    options.block_size = proposed;
    session.compile(llama.program(), options, 4);
    EXPECT_EQ(session.memory().block_size, expected);
  }
}

}  // namespace
}  // namespace bp::test
