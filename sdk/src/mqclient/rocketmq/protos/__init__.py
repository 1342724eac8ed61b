"""RocketMQ's gRPC protocol as code, from the door's own rocketmq.proto. Made by protoc."""
