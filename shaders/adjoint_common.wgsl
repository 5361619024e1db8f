// What both sources of adjoints share.
#bind x, work
struct Sums {
    bar: vec4<f32>,   // ∂/∂b, for biases and shifts
    alpha: vec4<f32>, // ∂/∂α (diagonal diffusion)
    euler: vec4<f32>, // ∂/∂b · b, for the loss by Euler's theorem (all pairs)
}

// From ∂/∂b̃ = `tilted` and ∂/∂rest back to ∂/∂b, which is stored and summed, and ∂/∂(a x), which is returned.
fn untilt(row: u32, e: u32, k: u32, tilted: vec4<f32>, rest_bar: f32, sum: ptr<function, Sums>) -> vec4<f32> {
    let record = row * job.work_stride;
    var bar = tilted;
    var b = work[record + job.at_b + k]; // b̃
    var ax_bar = vec4<f32>(0.0);
    if (TILTED) {
        let tau = work[record].y;
        let factor = TILT_SHARE * tau;
        let value = x[row * job.stride + k];
        if (QUADRATIC) {
            ax_bar = 1.5 * tau * tau * rest_bar * value - factor * bar;
            bar -= tau * rest_bar * value;
        } else {
            if (LINEAR) { bar += rest_bar * spread(row, e, k, value); }
            ax_bar = -factor * bar;
            if (LINEAR) { ax_bar += rest_bar * b; }
        }
        if (!FULL) { (*sum).alpha += ax_bar * value; }
        b += factor * spread(row, e, k, value);
    }
    (*sum).euler += bar * b;
    work[record + job.at_bar + k] = bar;
    (*sum).bar += bar;
    return ax_bar;
}
