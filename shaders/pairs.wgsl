// Stage `pairs`: the `linear` estimator. Neighbouring rows meet; from a few inner products come the pair's term and
// the coefficients of its adjoints, which `adjoint` spreads over the coordinates. A workgroup takes four pairs
// with 64 threads each. A pair with a padding row weighs 0.
#bind x, work, diffusion, columns
#use grid
#use rows
#use pair
#use kernel
#use objective
#use diffusion

const LANES: u32 = 512u / GROUP_ROWS;

var<workgroup> first_dots: array<vec4<f32>, 256>;  // (4 pairs, 64 lanes): |r|², v, g, m
var<workgroup> second_dots: array<vec4<f32>, SECOND_DOTS>; // π, π', w, ⟨x, y⟩
var<workgroup> third_dots: array<vec2<f32>, THIRD_DOTS>;  // ⟨b, y⟩, ⟨b', x⟩

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let group = group_of(id);
    if (group >= job.groups) { return; }
    let pair = thread / LANES;
    let lane = thread % LANES;
    let row = group * GROUP_ROWS + 2u * pair;
    let block = block_of(row);
    let e = block.environment;
    let here = row * job.work_stride;
    let there = here + job.work_stride;
    var one = vec4<f32>(0.0);
    var two = vec4<f32>(0.0);
    var three = vec2<f32>(0.0);
    for (var k = lane; k < job.stride; k += LANES) {
        let px = x[row * job.stride + k];
        let py = x[(row + 1u) * job.stride + k];
        let b = work[here + job.at_b + k];
        let b_other = work[there + job.at_b + k];
        let r = px - py;
        let z = spread_pair(row, row + 1u, e, k, r);
        one += vec4<f32>(dot(r, r), dot(b, b_other), dot(b - b_other, z), dot(z, z));
        if (QUADRATIC) { two += vec4<f32>(dot(b, r), dot(b_other, r), dot(r, z), 0.0); }
        if (LINEAR) { two.w += dot(px, py); }
        if (QUADRATIC && LINEAR) { three += vec2<f32>(dot(b, py), dot(b_other, px)); }
    }
    first_dots[thread] = one;
    if (QUADRATIC || LINEAR) { second_dots[thread] = two; }
    if (QUADRATIC && LINEAR) { third_dots[thread] = three; }
    for (var half = LANES / 2u; half >= 1u; half /= 2u) {
        workgroupBarrier();
        if (lane < half) {
            first_dots[thread] += first_dots[thread + half];
            if (QUADRATIC || LINEAR) { second_dots[thread] += second_dots[thread + half]; }
            if (QUADRATIC && LINEAR) { third_dots[thread] += third_dots[thread + half]; }
        }
    }
    workgroupBarrier();
    var totals = vec4<f32>(0.0);
    if (lane == 0u) {
        let traces = diffusion[e * job.diffusion_stride + job.at_traces];
        var dots = Dots();
        one = first_dots[thread];
        dots.v = one.y;
        dots.g = one.z;
        dots.m = one.w;
        if (QUADRATIC || LINEAR) { two = second_dots[thread]; }
        if (QUADRATIC && LINEAR) { three = third_dots[thread]; }
        dots.pi = two.x;
        dots.pi_other = two.y;
        dots.w = two.z;
        dots.inner = 1.0 + two.w;
        dots.b_y = three.x;
        dots.b_x = three.y;
        dots.trace = traces.x;
        dots.trace2 = traces.y;
        var numbers = vec4<f32>(1.0, 0.0, 0.0, 0.0);
        var numbers_other = numbers;
        if (TILTED) {
            numbers = work[here];
            numbers_other = work[there];
        }
        dots.rest = numbers.z;
        dots.rest_other = numbers_other.z;
        // The second row of a pair is a sample only if the first one is.
        let tilt = select(0.0, numbers.x * numbers_other.x, is_sample(row + 1u, block));
        let weight = tilt * block.weight;
        let phi = profile(0.5 * one.x);
        let c = coefficients(phi, dots);
        numbers.w = weight * c.rest;
        numbers_other.w = weight * c.rest_other;
        work[here] = numbers;
        work[there] = numbers_other;
        work[here + 1u] = weight * vec4<f32>(c.b, c.r, c.z, c.y);
        work[there + 1u] = weight * vec4<f32>(c.b, c.r_other, c.z, c.x);
        work[here + 2u] = weight * vec4<f32>(c.w, c.m, 0.0, 0.0);
        totals = vec4<f32>(tilt * term(phi, dots), weight * c.trace, weight * c.trace2, 0.0);
        // ζ holds −½ τ tr a.
        if (QUADRATIC) { totals.y -= 0.5 * (numbers.y * numbers.w + numbers_other.y * numbers_other.w); }
    }
    workgroupBarrier();
    if (lane == 0u) { first_dots[pair] = totals; }
    for (var half = GROUP_ROWS / 4u; half >= 1u; half /= 2u) {
        workgroupBarrier();
        if (thread < half) { first_dots[thread] += first_dots[thread + half]; }
    }
    if (thread == 0u) {
        columns[job.at_terms + job.first_block * (ROW_BLOCK / GROUP_ROWS) + group] = first_dots[0];
    }
}
