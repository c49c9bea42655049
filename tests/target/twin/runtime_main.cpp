// Runs one kernel program of the runtime tests: `program verify|time parameters... -- inputs... -- output:bytes...`.
// Parameters are name=value, attributes of the call @name=integer; inputs are raw files; outputs are written next to them. Prints what the case showed as JSON.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "kope_candidate.h"
#include "kope_twin/control.h"

namespace control = kope_twin::control;

namespace {

std::string quoted(const std::string& text)
{
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            result += '\\';
        }
        result += c;
    }
    return result + "\"";
}

void print(const control::CaseResult& result, int code, const std::vector<size_t>& unwritten)
{
    std::printf("{\"code\": %d, \"duration_us\": %.6f, \"read\": %llu, \"written\": %llu, \"flow\": \"%016llx\", \"scalar_read\": %s, "
                "\"untimed\": %s, \"stopped\": %s, \"unwritten\": [",
        code, result.duration_us, (unsigned long long)result.gm_read_bytes, (unsigned long long)result.gm_written_bytes,
        (unsigned long long)result.control_flow, result.scalar_read ? "true" : "false", result.untimed_work ? "true" : "false",
        result.stopped ? "true" : "false");
    for (size_t k = 0; k < unwritten.size(); ++k) {
        std::printf("%s%zu", k ? ", " : "", unwritten[k]);
    }
    std::printf("], \"findings\": [");
    for (size_t k = 0; k < result.findings.size(); ++k) {
        const control::Finding& found = result.findings[k];
        std::printf("%s{\"kind\": %s, \"message\": %s, \"remedy\": %s, \"severity\": \"%s\", \"line\": %d, \"block\": %u, \"count\": %llu}", k ? ", " : "",
            quoted(found.kind).c_str(), quoted(found.message).c_str(), quoted(found.remedy).c_str(), control::severity_name(found.severity),
            found.line, found.block, (unsigned long long)found.count);
    }
    std::printf("], \"launches\": [");
    for (size_t k = 0; k < result.launches.size(); ++k) {
        const control::LaunchTimes& launch = result.launches[k];
        std::printf("%s{\"kernel\": %s, \"blocks\": %u, \"cores\": %u, \"duration_us\": %.6f, \"ub_peak\": %llu, \"busy_us\": [", k ? ", " : "",
            quoted(launch.kernel).c_str(), launch.block_count, launch.core_count, launch.duration_us, (unsigned long long)launch.ub_peak_bytes);
        for (int pipe = 0; pipe < control::PipeCount; ++pipe) {
            double busy = 0.0;
            for (const control::BlockTimes& block : launch.blocks) {
                busy += block.busy_us[pipe];
            }
            std::printf("%s%.6f", pipe ? ", " : "", busy);
        }
        std::printf("]}");
    }
    std::printf("]}\n");
    std::fflush(stdout);
}

void on_fault(const control::CaseResult& result) { print(result, -1, {}); }

std::vector<char> read_file(const char* path)
{
    std::ifstream file(path, std::ios::binary);
    return std::vector<char>((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

} // namespace

int main(int argc, char** argv)
{
    control::Options options;
    options.mode = std::strcmp(argv[1], "time") == 0 ? control::Mode::Time : control::Mode::Verify;
    options.strict = std::getenv("TWIN_STRICT") != nullptr;
    options.block_order_seed = std::getenv("TWIN_ORDER") != nullptr ? std::strtoull(std::getenv("TWIN_ORDER"), nullptr, 10) : 0;
    std::vector<KopeAttr> attrs;
    int k = 2;
    for (; std::strcmp(argv[k], "--") != 0; ++k) {
        char* equals = std::strchr(argv[k], '=');
        *equals = '\0';
        if (argv[k][0] == '@') {
            attrs.push_back({argv[k] + 1, KOPE_ATTR_INT, std::atoll(equals + 1), 0.0, nullptr});
        } else if (!control::set_parameter(argv[k], std::atof(equals + 1))) {
            return 3;
        }
    }
    control::install_fault_handler(on_fault);
    control::begin_case(options);
    std::vector<std::vector<char>> memory;
    std::vector<KopeTensor> inputs;
    std::vector<KopeTensor> outputs;
    std::vector<int64_t> sizes(64);
    memory.reserve(64);
    for (++k; std::strcmp(argv[k], "--") != 0; ++k) {
        memory.push_back(read_file(argv[k]));
        sizes[memory.size()] = static_cast<int64_t>(memory.back().size());
        void* device = control::device_buffer(("input" + std::to_string(inputs.size())).c_str(), memory.back().data(), memory.back().size(),
            control::Access::Input);
        inputs.push_back({device, &sizes[memory.size()], 1, KOPE_UINT8, sizes[memory.size()]});
    }
    std::vector<std::string> paths;
    for (++k; k < argc; ++k) {
        char* colon = std::strrchr(argv[k], ':');
        paths.emplace_back(argv[k], colon);
        memory.emplace_back(std::strtoull(colon + 1, nullptr, 10), '\x7a');
        sizes[memory.size()] = static_cast<int64_t>(memory.back().size());
        void* device = control::device_buffer(("output" + std::to_string(outputs.size())).c_str(), memory.back().data(), memory.back().size(),
            control::Access::Output);
        outputs.push_back({device, &sizes[memory.size()], 1, KOPE_UINT8, sizes[memory.size()]});
    }
    double cores = 0.0;
    double ub = 0.0;
    control::get_parameter("vector_core_count", &cores);
    control::get_parameter("ub_bytes", &ub);
    KopeCall call = {inputs.data(), static_cast<int32_t>(inputs.size()), outputs.data(), static_cast<int32_t>(outputs.size()), attrs.data(),
        static_cast<int32_t>(attrs.size()), nullptr, 0,
        static_cast<uint32_t>(cores), static_cast<uint32_t>(ub), nullptr};
    const int code = kope_entry(&call);
    std::vector<size_t> unwritten;
    for (const KopeTensor& output : outputs) {
        unwritten.push_back(control::unwritten_bytes(output.data, nullptr));
    }
    const control::CaseResult result = control::end_case();
    print(result, code, unwritten);
    for (size_t n = 0; n < paths.size() && options.mode == control::Mode::Verify; ++n) {
        std::ofstream file(paths[n], std::ios::binary);
        const std::vector<char>& bytes = memory[inputs.size() + n];
        file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    }
    return 0;
}
