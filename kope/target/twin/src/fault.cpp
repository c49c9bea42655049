// The end of a process that cannot go on: faults of the candidate, API calls outside a kernel, time limits in pure scalar code.
#include <csignal>
#include <cstdio>
#include <cstring>
#include <link.h>
#include <ucontext.h>
#include <unistd.h>

#include "machine.h"

namespace kope_twin {
namespace runtime {

namespace {

control::FaultHandler fault_handler = nullptr;
constexpr int kExitStatus = 70;

bool names_device_memory(const siginfo_t* info, int signal)
{
    if (signal != SIGSEGV && signal != SIGBUS) {
        return false;
    }
    const uint64_t address = reinterpret_cast<uint64_t>(info->si_addr);
    if ((address & kTagMask) == kGmTag || (address & kTagMask) == kUbTag) {
        return true;
    }
    return info->si_code == SI_KERNEL; // x86 does not tell an address whose upper bits no memory can have
}

bool on_stack_guard(const siginfo_t* info, int signal)
{
    if (signal != SIGSEGV || current == nullptr || current->stack.base == nullptr) {
        return false;
    }
    const char* address = static_cast<const char*>(info->si_addr);
    const char* base = static_cast<const char*>(current->stack.base);
    return address < base && address >= base - 64 * 1024;
}

// Address of the faulting instruction in the executable file, 0 when it is in a shared library.
uint64_t instruction_address(const void* context)
{
#if defined(__x86_64__)
    return executable_offset(static_cast<uint64_t>(static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]));
#elif defined(__aarch64__)
    return executable_offset(static_cast<const ucontext_t*>(context)->uc_mcontext.pc);
#else
    return 0;
#endif
}

void on_signal(int signal, siginfo_t* info, void* context)
{
    in_runtime = true; // what follows allocates, and is not the kernel's work
    const uint64_t address = instruction_address(context);
    const char* where = current != nullptr ? "device code" : "host code";
    const char* after = machine.last_name[0] != '\0' ? machine.last_name : "(none)";
    if (on_stack_guard(info, signal)) {
        if (control::Finding* found = note("stack-overflow", machine.last_site)) {
            describe(found, "keep large arrays out of device functions; the device's stack is smaller still",
                "block %u needs more than its stack; the last API it called is %s", current->index, after);
            found->address = address;
        }
    } else if (names_device_memory(info, signal)) {
        machine.result.untimed_work = true;
        if (control::Finding* found = note("untimed-work", machine.last_site)) {
            describe(found, "move data with DataCopy or DataCopyPad and compute with the vector API; read single values with GetValue",
                "%s follows a raw pointer into device memory or UB, work that has no modelled time; the last API called before is %s", where, after);
            found->address = address;
        }
    } else if (control::Finding* found = note("crash", machine.last_site)) {
        describe(found, "check pointers, array bounds and divisions by zero in scalar code",
            "%s ended with signal %d (%s); the last API called before is %s", where, signal, strsignal(signal), after);
        found->address = address;
    }
    end_process();
}

} // namespace

uint64_t executable_offset(uint64_t address)
{
    struct Search {
        uint64_t address;
        uint64_t found;
    } search = {address, 0};
    dl_iterate_phdr(
        [](dl_phdr_info* loaded, size_t, void* data) {
            Search& wanted = *static_cast<Search*>(data);
            for (int k = 0; k < loaded->dlpi_phnum; ++k) {
                const auto& part = loaded->dlpi_phdr[k];
                const uint64_t offset = wanted.address - loaded->dlpi_addr;
                if (part.p_type == PT_LOAD && offset >= part.p_vaddr && offset < part.p_vaddr + part.p_memsz) {
                    wanted.found = offset;
                }
            }
            return 1; // the executable itself comes first, and nothing else is of interest
        },
        &search);
    return search.found;
}

void end_process()
{
    machine.stopped = true;
    const control::CaseResult result = control::end_case();
    if (fault_handler != nullptr) {
        const control::FaultHandler handler = fault_handler;
        fault_handler = nullptr; // a fault inside it must not come back
        handler(result);
    } else if (!result.findings.empty()) {
        const control::Finding& last = result.findings.back();
        std::fprintf(stderr, "%s:%d: %s: %s\n", last.file.c_str(), last.line, last.kind.c_str(), last.message.c_str());
    }
    _exit(kExitStatus);
}

Enter::Enter(const char* name, Site site)
{
    in_runtime = true;
    machine.last_site = site;
    machine.last_name = name;
    if (__builtin_expect(current == nullptr, 0)) {
        if (control::Finding* found = note("api-outside-kernel", site)) {
            describe(found, "call it in a kernel that is launched with <<<>>>", "%s is called by host code", name);
        }
        end_process();
    }
}

} // namespace runtime

namespace control {

void install_fault_handler(FaultHandler handler)
{
    runtime::fault_handler = handler;
    static char stack[128 * 1024];
    stack_t alternate = {};
    alternate.ss_sp = stack;
    alternate.ss_size = sizeof(stack);
    sigaltstack(&alternate, nullptr);
    struct sigaction action = {};
    action.sa_sigaction = runtime::on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND | SA_NODEFER;
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
        sigaction(signal, &action, nullptr);
    }
}

} // namespace control

namespace api {

void device_abort(const char* reason, Site site)
{
    runtime::Enter enter("trap", site);
    if (control::Finding* found = runtime::note("trap", site)) {
        runtime::describe(found, "find out why the kernel's own check failed", "block %u: %s", runtime::current->index, reason);
    }
    runtime::stop_launch();
}

} // namespace api
} // namespace kope_twin
