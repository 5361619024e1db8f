// What the tests ask of WebGPU in a page: to compile shaders, and to run a list of dispatches.

async function openDevice() {
    const adapter = await navigator.gpu?.requestAdapter();
    if (!adapter) throw new Error('the browser has no WebGPU adapter');
    // No limits are asked for: these are the defaults, which every device has.
    window.device = await adapter.requestDevice();
}

// The errors of each shader, in the order of the shaders; an empty list for those that are good. Some are made into
// pipelines as well, which shows that they fit the device's limits, and takes a device in software much longer.
async function compile(shaders) {
    return Promise.all(shaders.map(async ({ code, pipeline }) => {
        const module = device.createShaderModule({ code });
        const { messages } = await module.getCompilationInfo();
        const errors = messages.filter((m) => m.type === 'error').map((m) => `line ${m.lineNum}: ${m.message}`);
        if (errors.length > 0 || !pipeline) return errors;
        try {
            await device.createComputePipelineAsync({ layout: 'auto', compute: { module } });
            return [];
        } catch (error) {
            return [error.message];
        }
    }));
}

// Runs dispatches on buffers of 32-bit words and returns the words of those that `read` names.
async function run({ buffers, shaders, dispatches, read }) {
    device.pushErrorScope('validation');
    const { STORAGE, UNIFORM, COPY_SRC, COPY_DST, MAP_READ } = GPUBufferUsage;
    const filled = (words, bytes, usage) => {
        const buffer = device.createBuffer({ size: Math.max(bytes, 16), usage: usage | COPY_DST });
        if (words.length > 0) device.queue.writeBuffer(buffer, 0, new Uint32Array(words));
        return buffer;
    };
    const memory = {};
    for (const { name, bytes, words } of buffers) memory[name] = filled(words, bytes, STORAGE | COPY_SRC);
    const pipelines = shaders.map((code) => device.createComputePipeline({
        layout: 'auto',
        compute: { module: device.createShaderModule({ code }) },
    }));
    const encoder = device.createCommandEncoder();
    for (const { shader, uniform, bound, workgroups } of dispatches) {
        const resources = [filled(uniform, 4 * uniform.length, UNIFORM), ...bound.map((name) => memory[name])];
        const pass = encoder.beginComputePass();
        pass.setPipeline(pipelines[shader]);
        pass.setBindGroup(0, device.createBindGroup({
            layout: pipelines[shader].getBindGroupLayout(0),
            entries: resources.map((buffer, binding) => ({ binding, resource: { buffer } })),
        }));
        pass.dispatchWorkgroups(...workgroups);
        pass.end();
    }
    const copies = read.map((name) => {
        const copy = device.createBuffer({ size: memory[name].size, usage: MAP_READ | COPY_DST });
        encoder.copyBufferToBuffer(memory[name], 0, copy, 0, copy.size);
        return copy;
    });
    device.queue.submit([encoder.finish()]);
    const problem = await device.popErrorScope();
    if (problem) throw new Error(problem.message);
    return Promise.all(copies.map(async (copy) => {
        await copy.mapAsync(GPUMapMode.READ);
        return Array.from(new Uint32Array(copy.getMappedRange()));
    }));
}
