// A library that is replaced while the process runs: the next load gets the new code, and whoever
// uses the old code keeps it.

#include <gtest/gtest.h>

#include <filesystem>

#include "backplane/scheduler.hpp"
#include "core/plugin/host.hpp"
#include "core/plugin/library.hpp"
#include "core/plugin/scheduler.hpp"

namespace bp::plugin {
namespace {

namespace fs = std::filesystem;

class ReplacedLibrary : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // As linkers and installers do: a new file takes the name.
  void install(int version) const {
    const fs::path built =
        fs::path(VERSIONED_DIR) / ("versioned-" + std::to_string(version) + ".so");
    fs::copy_file(built, folder_ / "new", fs::copy_options::overwrite_existing);
    fs::rename(folder_ / "new", folder_ / "versioned.so");
  }

  [[nodiscard]] std::shared_ptr<const Library> load(int version) const {
    Manifest manifest;
    manifest.id = "versioned";
    manifest.version = std::to_string(version) + ".0.0";
    manifest.abi_major = BP_ABI_MAJOR;
    manifest.abi_minor = BP_ABI_MINOR;
    manifest.kinds = {BP_SCHEDULER_ID};
    manifest.library = (folder_ / "versioned.so").string();
    auto library = Library::load(manifest);
    EXPECT_TRUE(library.ok()) << library.status().message();
    return library.ok() ? *library : nullptr;
  }

  [[nodiscard]] uint32_t version_that_runs(const SchedulerHandle& scheduler) const {
    uint32_t n_tokens = 0;
    auto snapshot = make_growable<bp_snapshot>();
    auto decision = make_growable<bp_decision>();
    decision.n_seqs = 1;
    decision.n_tokens = &n_tokens;
    EXPECT_TRUE(scheduler.schedule(snapshot, decision).ok());
    return n_tokens;
  }

  [[nodiscard]] SchedulerHandle scheduler_of(const Library& library) const {
    return SchedulerHandle::create(factory_of(library), host_.get(), {}).value();
  }
  static const bp_scheduler_factory* factory_of(const Library& library) {
    return library.factory<bp_scheduler_factory>(BP_SCHEDULER_ID);
  }

  // Its own for each test, since tests may run side by side.
  fs::path folder_ = fs::path(::testing::TempDir()) /
                     ::testing::UnitTest::GetInstance()->current_test_info()->name();
  HostServices host_;
};

TEST_F(ReplacedLibrary, GivesTheNewCodeWhileTheOldRunsOn) {
  install(1);
  const auto old_library = load(1);
  ASSERT_NE(old_library, nullptr);
  const SchedulerHandle old_scheduler = scheduler_of(*old_library);

  install(2);
  const auto new_library = load(2);
  ASSERT_NE(new_library, nullptr);
  const SchedulerHandle new_scheduler = scheduler_of(*new_library);

  EXPECT_EQ(version_that_runs(old_scheduler), 1u);
  EXPECT_EQ(version_that_runs(new_scheduler), 2u);
  EXPECT_EQ(version_that_runs(scheduler_of(*old_library)), 1u);
}

TEST_F(ReplacedLibrary, IsCopiedOncePerContent) {
  install(1);
  const auto direct = load(1);
  ASSERT_NE(direct, nullptr);
  EXPECT_EQ(factory_of(*load(1)), factory_of(*direct)) << "an unchanged file needs no copy";

  install(2);
  const auto copy = load(2);
  ASSERT_NE(copy, nullptr);
  install(2);
  EXPECT_EQ(factory_of(*load(2)), factory_of(*copy));

  install(1);
  const auto back = load(1);
  ASSERT_NE(back, nullptr);
  EXPECT_EQ(version_that_runs(scheduler_of(*back)), 1u);
}

}  // namespace
}  // namespace bp::plugin
