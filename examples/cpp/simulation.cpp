/* simulation.cpp - a C++ program whose particles come and go: state of any size, saved every ten steps, and resumed.
 *
 * Shows dcp.hpp: the list of the program's own vectors, strings and numbers, made once; latest, load, save; exceptions.
 * Run it twice: the second run goes on. Does not show several ranks.
 *
 * Build: c++ -std=c++17 -O2 simulation.cpp -I../.. -o simulation -pthread
 * Run:   ./simulation [directory]      (default: checkpoints)
 */
#define DCP_IMPLEMENTATION
#include "dcp.hpp"
#include <iostream>
#include <stdexcept>

namespace {
struct simulation {
    std::vector<double> x, y;           // as many as there are particles
    std::string log = "started\n";
    std::uint64_t random = 1;
    std::int64_t step = 0;

    double next() {
        random = random * 6364136223846793005u + 1442695040888963407u;
        return static_cast<double>(random >> 11) / 9007199254740992.0;
    }
    void advance() {                    // all move; one is born in each step, and in every third the oldest dies
        for (double &coordinate : x) coordinate += next() - 0.5;
        for (double &coordinate : y) coordinate += next() - 0.5;
        x.push_back(next());
        y.push_back(next());
        if (++step % 3 == 0) x.erase(x.begin()), y.erase(y.begin());
        if (step % 10 == 0) log += "step " + std::to_string(step) + ": " + std::to_string(x.size()) + " particles\n";
    }
    bool operator==(const simulation &other) const {
        return x == other.x && y == other.y && log == other.log && random == other.random && step == other.step;
    }
};

int run(const std::string &directory) {
    simulation now;
    dcp::state state;
    state.add("x", now.x);
    state.add("y", now.y);
    state.add("log", now.log);
    state.add("random", now.random);
    state.add("step", now.step);

    if (const auto newest = dcp::latest(directory)) {
        state.load(*newest);
        std::cout << "resumed at step " << now.step << " with " << now.x.size() << " particles\n";
    }
    for (const std::int64_t last = now.step + 30; now.step < last;) {
        now.advance();
        if (now.step % 10 == 0) state.save(directory + "/step_" + std::to_string(now.step));
    }

    simulation again;
    while (again.step < now.step) again.advance();
    if (!(again == now)) throw std::runtime_error("it differs from one long run");
    std::cout << "proved: at step " << now.step << " all is as in a run that never stopped\n";
    return 0;
}
} // namespace

int main(int argc, char **argv) {
    try {
        return run(std::string(argc > 1 ? argv[1] : "checkpoints") + "/simulation");
    } catch (const std::exception &e) {
        std::cerr << e.what() << '\n';
        return 1;
    }
}
