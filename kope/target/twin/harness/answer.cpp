// See answer.h.
#include "answer.h"

#include <cmath>
#include <cstdio>
#include <map>
#include <unistd.h>

namespace harness {

using kope_twin::control::BlockTimes;
using kope_twin::control::CaseResult;
using kope_twin::control::Finding;
using kope_twin::control::LaunchTimes;

namespace {

// Launches of more blocks than this are reported per core: the rows of a core are added up.
constexpr size_t max_rows = 256;

void append_string(std::string& out, const std::string& text)
{
    out += '"';
    for (unsigned char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
            out += static_cast<char>(c);
        } else if (c < 0x20) {
            char code[8];
            std::snprintf(code, sizeof code, "\\u%04x", c);
            out += code;
        } else {
            out += static_cast<char>(c);
        }
    }
    out += '"';
}

void append_number(std::string& out, double value)
{
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", std::isfinite(value) ? value : 0.0);
    out += text;
}

void append_finding(std::string& out, const Finding& found)
{
    out += "{\"kind\":";
    append_string(out, found.kind);
    out += ",\"message\":";
    append_string(out, found.message);
    out += ",\"remedy\":";
    append_string(out, found.remedy);
    out += ",\"severity\":";
    append_string(out, kope_twin::control::severity_name(found.severity));
    out += ",\"file\":";
    append_string(out, found.file);
    out += ",\"line\":" + std::to_string(found.line) + ",\"count\":" + std::to_string(found.count);
    out += ",\"address\":" + std::to_string(found.address) + "}";
}

BlockTimes sum(const BlockTimes& a, const BlockTimes& b)
{
    BlockTimes total = a;
    total.end_us += b.end_us - b.start_us;
    total.scalar_wait_us += b.scalar_wait_us;
    total.gm_read_bytes += b.gm_read_bytes;
    total.gm_written_bytes += b.gm_written_bytes;
    total.cached_read_bytes += b.cached_read_bytes;
    for (int pipe = 0; pipe < kope_twin::control::PipeCount; ++pipe) {
        total.busy_us[pipe] += b.busy_us[pipe];
        total.instructions[pipe] += b.instructions[pipe];
    }
    for (int type = 0; type < kope_twin::control::VectorTypeCount; ++type) {
        total.vector_us[type] += b.vector_us[type];
    }
    return total;
}

std::vector<BlockTimes> rows_of(const LaunchTimes& launch)
{
    if (launch.blocks.size() <= max_rows) {
        return launch.blocks;
    }
    std::map<uint32_t, BlockTimes> cores;
    for (const BlockTimes& block : launch.blocks) {
        auto [place, fresh] = cores.emplace(block.core, block);
        place->second = fresh ? block : sum(place->second, block);
    }
    std::vector<BlockTimes> rows;
    for (const auto& [core, row] : cores) {
        rows.push_back(row);
        rows.back().block = core;
    }
    return rows;
}

// One row: block, time, busy time per pipe, scalar wait, instructions per pipe, bytes read, bytes written, vector time
// per type, bytes read from the L2 cache.
void append_row(std::string& out, const BlockTimes& row)
{
    out += "[" + std::to_string(row.block) + ",";
    append_number(out, row.end_us - row.start_us);
    for (double busy : row.busy_us) {
        out += ",";
        append_number(out, busy);
    }
    out += ",";
    append_number(out, row.scalar_wait_us);
    for (uint64_t count : row.instructions) {
        out += "," + std::to_string(count);
    }
    out += "," + std::to_string(row.gm_read_bytes) + "," + std::to_string(row.gm_written_bytes);
    for (double part : row.vector_us) {
        out += ",";
        append_number(out, part);
    }
    out += "," + std::to_string(row.cached_read_bytes) + "]";
}

// One span: block, pipe, start, end, index of the name, line, bytes.
void append_spans(std::string& out, const LaunchTimes& launch)
{
    std::map<std::string, size_t> names;
    std::vector<std::string> in_order;
    out += ",\"spans\":[";
    for (const kope_twin::control::Span& span : launch.spans) {
        const auto [place, fresh] = names.emplace(span.name, names.size());
        if (fresh) {
            in_order.push_back(span.name);
        }
        out += out.back() == '[' ? "[" : ",[";
        out += std::to_string(span.block) + "," + std::to_string(span.pipe) + ",";
        append_number(out, span.start_us);
        out += ",";
        append_number(out, span.end_us);
        out += "," + std::to_string(place->second) + "," + std::to_string(span.line) + "," + std::to_string(span.bytes) + "]";
    }
    out += "],\"spans_left_out\":" + std::to_string(launch.spans_left_out) + ",\"span_names\":[";
    for (const std::string& name : in_order) {
        out += out.back() == '[' ? "" : ",";
        append_string(out, name);
    }
    out += "]";
}

void append_launch(std::string& out, const LaunchTimes& launch)
{
    out += "{\"kernel\":";
    append_string(out, launch.kernel);
    out += ",\"line\":" + std::to_string(launch.line) + ",\"blocks\":" + std::to_string(launch.block_count);
    out += ",\"ub_peak_bytes\":" + std::to_string(launch.ub_peak_bytes) + ",\"duration_us\":";
    append_number(out, launch.duration_us);
    out += ",\"rows\":[";
    bool first = true;
    for (const BlockTimes& row : rows_of(launch)) {
        out += first ? "" : ",";
        first = false;
        append_row(out, row);
    }
    out += "]";
    if (!launch.spans.empty()) {
        append_spans(out, launch);
    }
    out += "}";
}

template <typename T, typename Append>
void append_list(std::string& out, const char* name, const std::vector<T>& items, Append append)
{
    out += std::string(",\"") + name + "\":[";
    for (size_t k = 0; k < items.size(); ++k) {
        out += k ? "," : "";
        append(out, items[k]);
    }
    out += "]";
}

} // namespace

Finding finding(const char* kind, std::string message, std::string remedy)
{
    Finding found;
    found.kind = kind;
    found.message = std::move(message);
    found.remedy = std::move(remedy);
    return found;
}

std::string Answers::start(const char* event, int64_t number) const
{
    return std::string("{\"nonce\":\"") + nonce_ + "\",\"event\":\"" + event + "\",\"case\":" + std::to_string(number);
}

void Answers::begin(int64_t number) { write_line(start("begin", number) + "}\n"); }

void Answers::end(int64_t number, int return_code, const CaseResult& result)
{
    std::string out = start("end", number) + ",\"return_code\":" + std::to_string(return_code) + ",\"duration_us\":";
    append_number(out, result.duration_us);
    char hash[24];
    std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(result.control_flow));
    out += std::string(",\"control_flow\":\"") + hash + "\"";
    out += std::string(",\"scalar_read\":") + (result.scalar_read ? "true" : "false");
    out += std::string(",\"untimed_work\":") + (result.untimed_work ? "true" : "false");
    append_list(out, "findings", result.findings, append_finding);
    append_list(out, "launches", result.launches, append_launch);
    write_line(out + "}\n");
}

void Answers::write_line(const std::string& line) const
{
    size_t done = 0;
    while (done < line.size()) {
        const ssize_t count = write(descriptor_, line.data() + done, line.size() - done);
        if (count <= 0) {
            _exit(71); // nobody can be told; the driver sees the exit status
        }
        done += static_cast<size_t>(count);
    }
}

} // namespace harness
