// The main function of all unit tests: where the source and build trees are, then GoogleTest.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

int main(int argc, char** argv) {
  ::setenv("BACKPLANE_SOURCE_DIR", SOURCE_DIR, 0);
  ::setenv("BACKPLANE_BUILD_DIR", BUILD_DIR, 0);
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
