// SPDX-License-Identifier: MIT
// System calls that fail when a test says so.
#pragma once

namespace sidecall::test {

// Counts the calls of this thread from now on; the one with this number fails with this errno. 0:
// all succeed.
void BeginCalls(int failing, int number) noexcept;
// Ends that. Returns the number of calls.
int EndCalls() noexcept;
// The name of the call that failed; empty: none did.
const char* FailedCall() noexcept;

}  // namespace sidecall::test
