// The frame around a program with its own main: one case, opened before main and reported when it ends, however it ends.
// The launch description and the descriptor for answers come in the environment (KOPE_TWIN_LAUNCH, KOPE_TWIN_ANSWER).
#include <cstdio>
#include <cstdlib>
#include <string>

#include "answer.h"
#include "kope_twin/control.h"
#include "launch.h"
#include "options.h"

namespace control = kope_twin::control;

extern "C" int __real_main(int argc, char** argv, char** environment);

namespace {

harness::Answers* answers = nullptr;
int exit_code = -1;

void on_fault(const control::CaseResult& result) { answers->end(0, -1, result); }

void at_exit()
{
    control::CaseResult result = control::end_case();
    if (result.launches.empty() && !result.stopped) {
        result.findings.push_back(harness::finding("no-launch", "the program ended without launching a kernel", "look at its output for what it misses"));
    }
    std::fflush(stdout);
    answers->end(0, exit_code, result);
}

} // namespace

extern "C" int __wrap_main(int argc, char** argv, char** environment)
{
    harness::LaunchPlan plan;
    std::string problem;
    const char* path = std::getenv("KOPE_TWIN_LAUNCH");
    const char* descriptor = std::getenv("KOPE_TWIN_ANSWER");
    if (path == nullptr || descriptor == nullptr || !harness::read_launch(path, plan, problem)) {
        std::fprintf(stderr, "kope-harness: %s\n", problem.empty() ? "start this program with kope twin run" : problem.c_str());
        return 64;
    }
    for (const auto& [name, value] : plan.parameters) {
        control::set_parameter(name.c_str(), value);
    }
    static harness::Answers writer(std::atoi(descriptor), plan.nonce);
    answers = &writer;
    if (!plan.chip.empty()) {
        control::set_chip_name(plan.chip.c_str());
    }
    control::install_fault_handler(on_fault);
    control::begin_case(harness::options_of(plan));
    answers->begin(0);
    std::atexit(at_exit);
    exit_code = __real_main(argc, argv, environment);
    return exit_code;
}
